"""Settings for all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# A shared machine is slow at times, which says nothing of the code; in CI the same examples every
# time, so that a failure is of the change (make fuzz looks for new ones).
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell that runs this in the background has interrupts ignored, and what tests start inherits it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
