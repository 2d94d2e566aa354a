"""Each reason for a suspect has one row of behaviour."""

from __future__ import annotations

import pytest

from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.suspect_behaviour import BEHAVIOUR, OF_A_SNAPSHOT, REFUSED_READS, UNMARKED


def test_every_reason_has_its_behaviour():
    assert set(BEHAVIOUR) == set(Reason)


@pytest.mark.parametrize("reason", sorted(BEHAVIOUR))
def test_what_blocks_events_marks_rows_so_that_readers_see_it(reason):
    assert BEHAVIOUR[reason].blocks == BEHAVIOUR[reason].marks


def test_the_sets_that_code_asks_for_are_those_of_the_table():
    assert {Reason.STALE_SNAPSHOT, Reason.UNREADABLE_ROW} == OF_A_SNAPSHOT
    assert {Reason.DRIFT, Reason.SILENT_CHANGE} == UNMARKED
    assert {Reason.VANISHED, Reason.VIEW_ALL_MISSING, Reason.NOT_READABLE} == REFUSED_READS
