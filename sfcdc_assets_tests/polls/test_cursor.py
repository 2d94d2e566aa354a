"""Pages that follow one another by stamp and Id: nothing is passed over, whatever the ties and wherever one stops."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.polls.cursor import REREAD, Cursor, soql_time

BEGIN = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
RECORDS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400)), max_size=40, unique_by=lambda each: each[1])
"""Seconds after `BEGIN`, and a number that is the Id."""


def record_id(number: int) -> str:
    return f"006{number:015d}"


def matches(condition: str, stamp: datetime, of: str) -> bool:
    """What SOQL makes of the condition, read by itself."""
    time = r"(\S+?)"
    if found := re.fullmatch(rf"SystemModstamp >= {time}", condition):
        return stamp >= datetime.fromisoformat(found[1])
    found = re.fullmatch(rf"\(SystemModstamp > {time} OR \(SystemModstamp = {time} AND Id > '(\w+)'\)\)", condition)
    assert found, condition
    return stamp > datetime.fromisoformat(found[1]) or (stamp == datetime.fromisoformat(found[2]) and of > found[3])


@given(records=RECORDS, size=st.integers(1, 7))
def test_pages_one_after_another_have_every_record_once_however_many_share_a_stamp(
    records: list[tuple[int, int]], size: int
) -> None:
    stored = sorted((BEGIN + timedelta(seconds=second), record_id(number)) for second, number in records)
    cursor, read = Cursor(BEGIN), []
    for _ in range(len(stored) + 1):
        condition = cursor.condition("SystemModstamp")
        page = [each for each in stored if matches(condition, *each)][:size]
        if not page:
            break
        read += page
        cursor = Cursor(*page[-1])
    assert read == stored


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), st.integers(0, 999))
def test_a_stamp_of_whole_milliseconds_comes_back_from_its_number_and_from_its_text(at: datetime, ms: int) -> None:
    stamp = at.replace(microsecond=ms * 1000, tzinfo=UTC)
    assert Cursor.of_ms(Cursor(stamp).stamp_ms).stamp == stamp
    assert datetime.fromisoformat(soql_time(stamp)) == stamp


@given(
    delays=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, int(REREAD.total_seconds()) - 1)), max_size=30),
    polls=st.lists(st.integers(1, 900), min_size=1, max_size=12),
)
def test_what_becomes_visible_late_is_read_by_a_later_poll(delays: list[tuple[int, int]], polls: list[int]) -> None:
    """A record is stamped at one second, and visible some seconds later, up to the time that a call may run."""
    read: set[int] = set()
    now, begins = 0, Cursor(BEGIN)
    for pause in polls:
        now += pause
        visible = {n for n, (stamped, late) in enumerate(delays) if stamped + late <= now}
        read |= {n for n in visible if BEGIN + timedelta(seconds=delays[n][0]) >= begins.stamp}
        begins = max(begins, Cursor(BEGIN + timedelta(seconds=now)).back_by(REREAD))
        assert visible <= read
