"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A shared machine is slow at times, which says nothing of the code; in CI the same examples every
# time, so that a failure is of the change (make fuzz looks for new ones).
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
