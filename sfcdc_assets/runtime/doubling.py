"""The pause after failures in a row, wherever one is made between tries: of a request, a run, a record, a notice.

tenacity, which tries again within one call, has the same rule for its own attempts; these pauses are between calls, and
many of them outlive the process.
"""

_MOST_DOUBLINGS = 30
"""More make any pause the longest one; a count of failures has no bound."""


def doubled(first: float, longest: float, failures: int) -> float:
    """Return the pause after so many failures in a row: `first`, twice as long with each further one, up to `longest`;
    0 after none. In the unit of both."""
    return min(longest, first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)) if failures > 0 else 0.0
