"""Two runs side by side: what grew, what shrank, and how much of the difference each explains.

Two captures of one run, taken at both ends, are recognised by their frames; then client, wire and
worker times are exact, whatever the clocks say.
"""

from rpcwire.compare.comparison import Comparison, compare
from rpcwire.compare.ends import BothEnds

__all__ = ["BothEnds", "Comparison", "compare"]
