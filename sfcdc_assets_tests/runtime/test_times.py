"""Milliseconds and moments are each exactly the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.runtime.times import EPOCH, duration_text, epoch_ms, utc

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last millisecond of the years 1 to 9999."""


@given(st.integers(FIRST_MS, LAST_MS))
def test_a_moment_of_any_millisecond_is_that_millisecond_again(ms: int) -> None:
    assert epoch_ms(utc(ms)) == ms


def test_a_millisecond_is_not_lost_in_a_float_of_seconds() -> None:
    moment = EPOCH + timedelta(milliseconds=1_001)
    assert int(moment.timestamp() * 1000) == 1_000  # what is not done
    assert epoch_ms(moment) == 1_001


def test_a_moment_counts_in_its_own_time_zone_and_what_is_finer_than_a_millisecond_is_cut_off() -> None:
    in_delhi = datetime(2024, 1, 2, 5, 30, 0, 1_999, timezone(timedelta(hours=5, minutes=30)))
    assert utc(epoch_ms(in_delhi)) == datetime(2024, 1, 2, 0, 0, 0, 1_000, UTC)
    assert epoch_ms(EPOCH - timedelta(microseconds=1)) == -1


def test_a_moment_without_a_time_zone_is_in_utc() -> None:
    assert epoch_ms(datetime(1970, 1, 1, 0, 0, 1)) == 1_000


@pytest.mark.parametrize("ms", [FIRST_MS - 1, LAST_MS + 1])
def test_what_no_calendar_holds_is_no_moment(ms: int) -> None:
    with pytest.raises(OverflowError):
        utc(ms)


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (150, "2 min"), (8_000, "2 h 13 min")])
def test_durations_are_readable(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
