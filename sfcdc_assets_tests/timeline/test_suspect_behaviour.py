"""Each reason for a suspect has one row of behaviour, and the page for readers has the same one."""

from __future__ import annotations

import re

import pytest

from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.suspect_behaviour import BEHAVIOUR, OF_A_SNAPSHOT, REFUSED_READS, UNMARKED
from sfcdc_assets_tests.documentation import ROOT

ABOUT = {"record": "the record", "entity": "the entity", "read": "a read of the entity"}


def test_every_reason_has_its_behaviour():
    assert set(BEHAVIOUR) == set(Reason)


def test_the_page_about_tables_says_what_the_code_does():
    page = (ROOT / "docs" / "tables.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| (yes|no) \| (yes|no) \| ([^|]+) \|$", page, re.MULTILINE)
    assert {row[0]: row[1:] for row in rows} == {
        reason.value: (
            ABOUT[each.about],
            each.raised_by,
            "yes" if each.blocks else "no",
            "yes" if each.marks else "no",
            each.answered_by,
        )
        for reason, each in BEHAVIOUR.items()
    }


@pytest.mark.parametrize("reason", sorted(BEHAVIOUR))
def test_what_blocks_events_marks_rows_so_that_readers_see_it(reason):
    assert BEHAVIOUR[reason].blocks == BEHAVIOUR[reason].marks


def test_the_sets_that_code_asks_for_are_those_of_the_table():
    assert {Reason.STALE_SNAPSHOT, Reason.UNREADABLE_ROW} == OF_A_SNAPSHOT
    assert {Reason.DRIFT, Reason.SILENT_CHANGE} == UNMARKED
    assert {Reason.VANISHED, Reason.VIEW_ALL_MISSING, Reason.NOT_READABLE} == REFUSED_READS
