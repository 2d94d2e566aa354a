"""Which events were landed before: what a reader remembers of them, and what it asks the table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing import landed_lately
from sfcdc_assets.landing.landed_lately import LandedLately
from sfcdc_assets.runtime.times import EPOCH
from sfcdc_assets.streams.checkpoint import StreamCheckpoint

Event = tuple[str, int]
"""Its uuid, and the second in which it was committed."""


class Channel:
    """What is landed of a channel, by whomever, and how often it was looked up."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = EPOCH
        self.looks = 0
        self.is_damaged = False

    @property
    def checkpoint(self) -> StreamCheckpoint:
        return StreamCheckpoint("/data/ChangeEvents", len(self.events))

    def scan(self, columns: Sequence[str], condition: str) -> pa.Table:
        self.looks += 1
        if self.is_damaged:
            raise TableDamaged("raw_events", None, "part-1.parquet", "is gone")
        times = [f"arrow_cast('{(EPOCH + timedelta(seconds=second)).isoformat()}'" for _, second in self.events]
        first, last = (condition.partition(f"commit_timestamp {sign} ")[2].partition(",")[0] for sign in (">=", "<="))
        found = [each for (each, _), time in zip(self.events, times, strict=True) if first <= time <= last]
        return pa.table({"event_id": pa.array(found, pa.string())}).select(columns)

    def land(self, lately: LandedLately, events: Sequence[Event]) -> set[str]:
        """Land events; returns those that a reader takes for landed before."""
        table = cast(RawEvents, SimpleNamespace(table=self))
        asked = {each: EPOCH + timedelta(seconds=second) for each, second in events}
        found = lately.among(table, self.checkpoint, self.now, asked)
        self.events += events
        lately.landed(rows_of(events), self.checkpoint)
        return found


def rows_of(events: Sequence[Event]) -> pa.Table:
    time = pa.timestamp("us", "UTC")
    committed = [EPOCH + timedelta(seconds=second) for _, second in events]
    received = pa.array([at + timedelta(seconds=2) for at in committed], time)
    ids = pa.array([each for each, _ in events], pa.string())
    return pa.table({"event_id": ids, "commit_timestamp": pa.array(committed, time), "received_at": received})


def stream_of(steps: Sequence[tuple[int, int | None]]) -> list[Event]:
    """Events: each so many seconds after the one before, or a copy of the one so many before it."""
    stream: list[Event] = []
    for later, copied in steps:
        if copied is not None and copied < len(stream):
            stream.append(stream[-1 - copied])
        else:
            stream.append((f"e{len(stream)}", max((second for _, second in stream), default=1_000) + later))
    return stream


@given(
    st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 12)), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["same", "same", "new", "other"])), min_size=30, max_size=30),
)
def test_a_reader_knows_each_event_that_was_landed_before_whoever_landed_it(
    steps: list[tuple[int, int | None]], pieces: list[tuple[int, str]]
) -> None:
    """The same reader goes on, or a new one takes its place, or another one lands a piece in between."""
    channel, lately, left = Channel(), LandedLately(), stream_of(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landed_lately, "MOST", 4)
        for size, reader in pieces:
            piece, left = left[:size], left[size:]
            before = {each for each, _ in channel.events}
            lately = LandedLately() if reader == "new" else lately
            found = channel.land(LandedLately() if reader == "other" else lately, piece)
            assert found == {each for each, _ in piece} & before


def test_a_reader_that_goes_on_asks_the_table_once_and_for_what_is_older_than_all_that_it_remembers() -> None:
    channel, lately = Channel(), LandedLately()
    channel.land(LandedLately(), [("old", 1), ("older", 0)])
    for second in range(2, 50):
        assert channel.land(lately, [(f"e{second}", second)]) == set()
    assert channel.looks == 1, "the first time"
    assert channel.land(lately, [("e40", 40), ("e48", 48)]) == {"e40", "e48"}
    assert channel.looks == 1
    assert channel.land(lately, [("old", 1)]) == {"old"}
    assert channel.looks == 2


def test_an_event_of_a_file_that_cannot_be_read_keeps_no_other_from_landing() -> None:
    channel = Channel()
    channel.land(LandedLately(), [("old", 1)])
    channel.is_damaged = True
    assert channel.land(LandedLately(), [("old", 1), ("new", 2)]) == set()


def test_the_time_of_a_damaged_header_has_no_year_of_events_gone_through() -> None:
    channel = Channel()
    channel.now = EPOCH + timedelta(days=365)
    channel.land(LandedLately(), [("damaged", 0)])
    assert channel.land(LandedLately(), [("damaged", 0)]) == set()
    assert channel.looks == 0
