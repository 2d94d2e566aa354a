"""Polls, counts and comparisons of much: they end with the tick or with what there is room for, and go on later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sfcdc_assets.lake.store.poll_notes import PollNote, read_poll_notes
from sfcdc_assets.lake.store.request_ledger import POLLS, read_ledger
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.hard_deletes import HardDeletes
from sfcdc_assets.landing.object_comparison import MOST_MS, ComparisonTooLong, ObjectComparison, takes_a_job
from sfcdc_assets.landing.poll_budget import PollBudget
from sfcdc_assets.landing.poll_timeouts import NOW_ALL, TICK
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.polls.polled_org import last_reading, read_rows, reading, rename

pytestmark = pytest.mark.slow

PAGE = 2_000
MANY = 2 * PAGE + 100
SHORT = replace(TICK, budget=0.0)
"""A tick whose time is over with the first page."""


@pytest.fixture(scope="module")
def large(shared: EmulatedPipeline) -> EmulatedPipeline:
    """Opportunities of more than two pages, in the table; they were changed last in seven transactions, hours apart."""
    with shared.org.transaction() as work:
        for number in range(MANY):
            fields = {"Name": f"Number {number}", "StageName": "Prospecting", "CloseDate": "2027-01-31"}
            work.create("Opportunity", fields)
    return shared


@pytest.fixture
def org(large: EmulatedPipeline, org: EmulatedPipeline) -> EmulatedPipeline:
    assert large is org
    org.sync()
    org.org.clock.sleep(4000)
    return org


@contextmanager
def org_that_gives_up_on(org: EmulatedPipeline, records: int) -> Iterator[None]:
    kept = org.org.settings
    org.org.settings = replace(kept, most_rows_in_time=records)
    try:
        yield
    finally:
        org.org.settings = kept


def note_of(org: EmulatedPipeline) -> PollNote:
    with reading(org) as (_, _, warehouse):
        return read_poll_notes(warehouse)["Opportunity"]


def test_a_flood_takes_a_page_of_each_tick_that_has_no_more_time_and_others_are_polled_in_between(
    org: EmulatedPipeline,
) -> None:
    rename(org, "Opportunity", MANY, "a flood")
    rename(org, "Case", 1, "beside a flood")
    org.org.clock.sleep(100)
    with reading(org) as (reader, _, warehouse):
        before, of_case = last_reading(warehouse, "Opportunity"), last_reading(warehouse, "Case")
        reader.land(SHORT)
        assert len(read_rows(warehouse, "Opportunity", before)) == PAGE
        assert len(read_rows(warehouse, "Case", of_case)) == 1
        assert read_poll_notes(warehouse)["Opportunity"].has_more
        org.org.clock.sleep(901)
        rename(org, "Case", 1, "after the first page")
        reader.land(SHORT)
        assert len(read_rows(warehouse, "Case", of_case)) == 2
    with reading(org) as (reader, _, warehouse):  # another process goes on where this one stopped
        for _ in range(4):
            if not read_poll_notes(warehouse)["Opportunity"].has_more:
                break
            reader.land(SHORT)
        read = read_rows(warehouse, "Opportunity", before)
        assert sorted(read) == sorted(ids(org.org, "Opportunity")[:MANY])
        assert not read_poll_notes(warehouse)["Opportunity"].has_more
    org.sync()
    org.assert_equal_to_the_org(["Opportunity", "Case"])


def test_the_one_record_that_a_job_changed_under_pages_of_mere_stamps_is_all_that_is_read_though_the_poll_breaks_off(
    org: EmulatedPipeline,
) -> None:
    org.org.clock.sleep(4000)
    changed = sorted(ids(org.org, "Opportunity"))[PAGE + 7]
    with org.org.database.transaction():  # as a job does, which stamps all records alike
        org.org.store.update(org.org.definitions["Opportunity"], changed, {"NextStep": "among thousands of stamps"})
    org.org.stamp_all("Opportunity")
    org.org.clock.sleep(100)
    with reading(org) as (reader, _, warehouse):
        before = last_reading(warehouse, "Opportunity")
        reader.land(SHORT)
        assert read_poll_notes(warehouse)["Opportunity"].has_more
    with reading(org) as (reader, _, warehouse):
        for _ in range(4):
            if not read_poll_notes(warehouse)["Opportunity"].has_more:
                break
            reader.land(SHORT)
        assert read_rows(warehouse, "Opportunity", before) == [changed]
    org.sync()
    assert org.rows("Opportunity")[changed]["NextStep"] == "among thousands of stamps"


def test_pages_that_hold_nothing_new_are_not_read_again_by_each_tick(org: EmulatedPipeline) -> None:
    """All of a flood was read, and lies in the time that each poll reads again."""
    rename(org, "Opportunity", MANY, "read, and read again")
    org.org.clock.sleep(60)
    with reading(org) as (reader, _, warehouse):
        reader.land(TICK, entity="Opportunity")
        before = last_reading(warehouse, "Opportunity")
        for _ in range(-(-MANY // PAGE)):
            reader.land(SHORT, entity="Opportunity")
        assert not read_poll_notes(warehouse)["Opportunity"].has_more
        assert read_rows(warehouse, "Opportunity", before) == []


def test_a_sync_that_had_no_room_for_all_pages_says_which_object_waits(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename(org, "Opportunity", MANY, "more than there is room for")
    org.org.clock.sleep(100)
    asked = PollBudget.has_room
    with monkeypatch.context() as patch, reading(org) as (reader, _, warehouse):
        patch.setattr(PollBudget, "has_room", lambda self, requests: asked(self, requests) and requests < 2)
        reader.land(NOW_ALL)
        waiting = read_ledger(warehouse).postponed[POLLS].objects
        assert waiting == ("Opportunity",)
    with reading(org) as (reader, _, warehouse):
        reader.land(NOW_ALL)
        assert POLLS not in read_ledger(warehouse).postponed
    org.sync()
    org.assert_equal_to_the_org(["Opportunity"])


@pytest.mark.parametrize("once", [False, True])
def test_an_org_that_gives_up_on_a_poll_is_asked_for_the_changes_of_less_time_until_it_answers(
    org: EmulatedPipeline, once: bool
) -> None:
    every = ids(org.org, "Opportunity")
    for number in range(7):
        org.org.clock.sleep(3000)
        with org.org.transaction() as work:
            for record_id in every[number::7]:
                work.update("Opportunity", record_id, {"Description": f"{number}, once: {once}"})
    rename(org, "Case", 1, f"beside, once: {once}")
    org.org.clock.sleep(900)
    with org_that_gives_up_on(org, PAGE // 2), reading(org) as (reader, _, warehouse):
        before, of_case = last_reading(warehouse, "Opportunity"), last_reading(warehouse, "Case")
        reader.land(NOW_ALL if once else TICK)
        assert len(read_rows(warehouse, "Case", of_case)) == 1
        if not once:
            assert "QUERY_TIMEOUT" in str(note_of(org).error)
            for _ in range(40):
                if not note_of(org).has_more:
                    break
                reader.land(TICK)
        assert set(every) <= set(read_rows(warehouse, "Opportunity", before))
        note = note_of(org)
        assert (note.error, note.has_more, note.window_ms, note.failures) == (None, False, 0, 0)
    org.sync()
    org.assert_equal_to_the_org(["Opportunity", "Case"])


def test_records_of_one_second_that_the_org_gives_up_on_are_a_failure_with_pauses_and_no_loop(
    org: EmulatedPipeline,
) -> None:
    rename(org, "Opportunity", MANY, "of one second")
    org.org.clock.sleep(100)
    with org_that_gives_up_on(org, PAGE), reading(org) as (reader, _, warehouse):
        reader.land(NOW_ALL)
        note = read_poll_notes(warehouse)["Opportunity"]
        assert (note.failures, note.has_more) == (1, False)
        assert "QUERY_TIMEOUT" in str(note.error)
    org.org.clock.sleep(4000)
    org.sync()
    org.assert_equal_to_the_org(["Opportunity"])


def test_a_comparison_by_a_bulk_job_waits_for_it_over_several_ticks(org: EmulatedPipeline) -> None:
    changed = ids(org.org, "Opportunity")[7]
    with org.org.transaction() as work:
        work.set_unstamped("Opportunity", changed, {"Description": "no stamp says so"})
    with reading(org) as (_, connected, warehouse):
        assert takes_a_job(warehouse, "Opportunity")
        position = RawEvents.open(warehouse).last_position(POLLED)
        comparison = ObjectComparison(warehouse, connected, "Opportunity", ("Description",), position)
        steps = [comparison.go_on(lambda: False) for _ in range(2)]
        assert steps[0] is None, "the org was still at work"
        found = steps[1] or comparison.go_on(lambda: False) or comparison.go_on(lambda: True)
        assert found is not None
        assert found.differing == 1
        suspects = Ledger.open_or_create(warehouse, "Opportunity").open_suspects()
        assert [each.record_id for each in suspects] == [changed]
        endless = ObjectComparison(warehouse, connected, "Opportunity", ("Description",), position)
        org.org.clock.sleep(MOST_MS / 1000 + 1)
        with pytest.raises(ComparisonTooLong, match="Opportunity"):
            endless.go_on(lambda: False)
    org.sync()
    org.assert_equal_to_the_org(["Opportunity"])


def test_counts_that_the_org_gives_up_on_are_parted(org: EmulatedPipeline) -> None:
    gone = ids(org.org, "Opportunity")[5]
    with org.org.transaction() as work:
        work.hard_delete("Opportunity", gone)
    with org_that_gives_up_on(org, PAGE), reading(org) as (_, connected, warehouse):
        position = RawEvents.open(warehouse).last_position(POLLED)
        is_over, left = HardDeletes(warehouse, connected).search("Opportunity", position, 20)
        assert is_over
        assert left > 0
    org.sync()
    assert org.rows("Opportunity")[gone]["_is_deleted"]
