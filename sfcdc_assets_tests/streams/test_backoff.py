"""Pauses between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.streams.backoff import Backoff


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_to_a_bound(failures: int, jitter: float) -> None:
    backoff = Backoff(first=0.5, longest=20.0, random=lambda: jitter)
    assert 0.25 <= backoff.pause(failures) <= backoff.pause(failures + 1) <= 20.0
