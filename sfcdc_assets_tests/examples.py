"""How many examples a property test tries, in shares of the profile's: `make soak` has forty times as many."""

from __future__ import annotations

from hypothesis import settings


def examples(share: float) -> int:
    """So many times what the profile in use tries. For tests that look at every example long, or at cheap ones."""
    return max(1, round(settings.default.max_examples * share))
