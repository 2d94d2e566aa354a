"""A second copy of an event may come within a later transaction, which goes on after it (guarantees 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.stream import Stream, stream

__all__ = ["no_settings_but_the_tests_own"]

COPIED, BEFORE_THE_COPY, AFTER_IT = 0, 2, 2


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Stream]:
    """A transaction of one event, and one of four, in the midst of which the copy of the first one comes."""
    with stream(tmp_path, records=6) as opened:
        opened.server.faults.arm(Fault.DUPLICATE, after=BEFORE_THE_COPY)
        opened.update(COPIED)
        with opened.org.transaction() as work:
            for number in range(1, 1 + BEFORE_THE_COPY + AFTER_IT):
                work.update("Account", opened.accounts[number], {"Site": str(number)})
        yield opened


def assert_whole(copied: Stream) -> None:
    """All have come, the copy where it was to be, and the second transaction is complete as a whole."""
    assert copied.poll_until_settled().complete_position == 6
    assert copied.records_landed() == copied.ids(0, 1, 2, 0, 3, 4)


def test_a_transaction_is_not_complete_where_the_copy_of_an_earlier_event_follows(copied: Stream) -> None:
    copied.pause(after=4, seconds=60)
    report = copied.poll()
    assert (report.position, report.complete_position) == (4, 1)
    assert_whole(copied)


@pytest.mark.parametrize("pieces", [(3, 4), (2, 3, 4, 5)])
def test_nor_where_each_reader_of_the_stream_is_a_new_one(copied: Stream, pieces: tuple[int, ...]) -> None:
    """None of them knows what the others have landed, but from the tables."""
    landed = 0
    for up_to in pieces:
        copied.pause(after=up_to - landed + (landed > 0), seconds=60)  # the event before comes again
        report = copied.poll()
        landed = report.position
        assert (report.position, report.complete_position) == (up_to, 1)
    assert_whole(copied)


def test_nor_where_one_reader_takes_them_one_by_one(copied: Stream) -> None:
    reader = copied.reader()
    copied.pause(after=3, seconds=5)
    for position in (3, 4):
        assert (copied.tick(reader).position, copied.checkpoint().complete_position) == (position, 1)
        copied.pause(after=1, seconds=5)
        copied.pass_time(6)
    assert (copied.tick(reader).position, copied.checkpoint().complete_position) == (5, 1)
    copied.disown(reader)
    assert_whole(copied)
