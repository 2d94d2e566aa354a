"""Polls that fail: what is refused, unforeseen or too dear of one object keeps no other from being polled."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.store.request_ledger import POLLS, note_ledger, read_ledger
from sfcdc_assets.lake.tables.snapshots import READ_OF_COLUMNS, Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.hard_deletes import HardDeletes
from sfcdc_assets.landing.object_poll import ObjectPoll
from sfcdc_assets.landing.poll_timeouts import NOW_ALL, TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.notices.looks import look_for
from sfcdc_assets.notices.outbox import Outbox
from sfcdc_assets.orchestration.checks import freshness
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import ApiLimitReached
from sfcdc_assets.settings.notice_kinds import NoticeKind
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.staleness import stale_parts
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.polls.polled_org import OBJECTS, failure, last_reading, read_rows, reading, rename


def test_an_object_that_is_refused_keeps_no_other_from_being_polled(org: EmulatedPipeline) -> None:
    rename(org, "Case", 1, "polled")
    org.org.hidden_objects = {"Lead"}
    try:
        with reading(org) as (reader, _, warehouse):
            before = last_reading(warehouse, "Case")
            assert "Lead" in str(failure(reader, warehouse, "Lead"))
            assert len(read_rows(warehouse, "Case", before)) >= 1
        entities = {each["entity"]: each for each in json.loads(sfcdc("status", "--json").stdout)["entities"]}
        assert "Lead" in entities["Lead"]["not_polled"]
        assert entities["Case"]["not_polled"] is None
        assert "Lead could not be polled" in sfcdc("status").stdout
    finally:
        org.org.hidden_objects = set()
    org.org.clock.sleep(7200)
    org.sync()
    org.assert_equal_to_the_org(OBJECTS)


@pytest.mark.parametrize("step", ["_begun", "land"])
def test_what_nobody_foresaw_of_one_object_keeps_no_other_from_being_polled(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    rename(org, "Case", 1, f"polled beside {step}")
    owner = PolledReader if step == "_begun" else ObjectPoll
    monkeypatch.setattr(owner, step, fails_for("Lead", getattr(owner, step)))
    with reading(org) as (reader, _, warehouse):
        before = last_reading(warehouse, "Case")
        assert "of Lead alone" in str(failure(reader, warehouse, "Lead"))
        assert len(read_rows(warehouse, "Case", before)) == 1
    monkeypatch.undo()


def test_an_object_whose_polls_fail_is_late_to_everybody_who_looks_until_it_is_polled_or_left_out(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are asked meanwhile: no tick fails, and the channel was read a moment ago."""
    org.sync()
    warehouse, said = Warehouse(str(org.warehouse)), "Lead is not polled (of Lead alone)"

    def late() -> list[list[str]]:
        settings, now_ms = load_settings(), clock.now_ms()
        noticed = look_for(NoticeKind.LATE, warehouse, settings, Outbox(), now_ms)
        assert noticed is not None
        checked = freshness.checked(warehouse, settings)
        assert checked.passed is not bool(checked.metadata["not_polled"].value)
        return [
            [each for each in stale_parts(warehouse, settings, 3600, now_ms) if "polled" in each],
            [each.reason for each in noticed.standing if "polled" in each.reason],
            list(checked.metadata["not_polled"].value),
        ]

    assert late() == [[], [], []]
    with monkeypatch.context() as patch, reading(org) as (reader, _, _):
        patch.setattr(ObjectPoll, "land", fails_for("Lead", ObjectPoll.land))
        for _ in range(5):
            org.org.clock.sleep(4000)
            assert reader.land(TICK).has_answered
        found = late()
        assert [len(each) for each in found] == [1, 1, 1]
        assert all(each[0].startswith(said) for each in found), found
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_POLL", "Case")
        with connect(load_settings()) as connected:
            PolledReader(warehouse, connected).land(NOW_ALL)
        assert late() == [[], [], []], "nobody polls it any more"
    org.sync()
    assert late() == [[], [], []]
    ledger = read_ledger(warehouse)
    ledger.postpone(POLLS, "the org has 0 requests left.", ("Case",), clock.now_ms())
    note_ledger(warehouse, ledger, POLLS)
    org.org.clock.sleep(4000)
    assert all(len(each) == 1 and each[0].startswith("Case is not polled (the org has 0") for each in late()), late()
    org.sync()
    assert late() == [[], [], []]


def test_changes_that_were_read_while_nothing_could_be_written_are_written_by_a_later_poll(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise WarehouseNotWritable(str(org.warehouse), "no space left on device")

    with reading(org) as (reader, _, warehouse):
        reader.land(NOW_ALL)
        last = last_reading(warehouse, "Case")
        rename(org, "Case", 2, "read while the disk was full")
        org.org.clock.sleep(4000)
        with monkeypatch.context() as patch:
            patch.setattr(Snapshots, "add_poll", no_room)
            with pytest.raises(WarehouseNotWritable):
                reader.land(NOW_ALL)
        org.org.clock.sleep(4000)
        reader.land(NOW_ALL)
        assert read_rows(warehouse, "Case", last) == sorted(ids(org.org, "Case")[:2])


def fails_for(entity: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, which fails with what is no error of ours for one object."""

    def fails(self: Any, *arguments: Any, **options: Any) -> Any:
        if entity in (getattr(self, "entity", None), *arguments[:1]):
            raise ZeroDivisionError("of Lead alone")
        return work(self, *arguments, **options)

    return fails


def test_an_object_that_cannot_be_counted_waits_longer_each_time_and_others_are_counted(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.sync()
    org.org.clock.sleep(90_000)
    tried: list[float] = []

    def search(of: HardDeletes, entity: str, *rest: Any) -> Any:
        if entity == "Lead":
            tried.append(org.org.clock.now_ms() / 1000)
            raise ZeroDivisionError("of Lead alone")
        return counted(of, entity, *rest)

    counted = HardDeletes.search
    with monkeypatch.context() as patch, reading(org) as (reader, _, warehouse):
        patch.setattr(HardDeletes, "search", search)
        for _ in range(60):
            reader.land(TICK)
            org.org.clock.sleep(400)
        notes = read_poll_notes(warehouse)
    assert "of Lead alone" in str(notes["Lead"].sweep_error)
    assert notes["Case"].sweep_error is None
    pauses = [after - before for before, after in pairwise(tried)]
    assert len(pauses) >= 3
    assert pauses == sorted(pauses)
    org.org.clock.sleep(90_000)
    for _ in range(2):
        org.sync()
        org.org.clock.sleep(1000)
    assert read_poll_notes(Warehouse(str(org.warehouse)))["Lead"].sweep_error is None


def test_a_used_up_allowance_is_raised_and_loses_nothing(org: EmulatedPipeline) -> None:
    rename(org, "Case", 2, "after the allowance")
    with reading(org) as (reader, _, warehouse):
        before = read_poll_notes(warehouse)
        org.server.rest_faults.arm(RestFault.REQUEST_LIMIT, path="/composite")
        with pytest.raises(ApiLimitReached):
            reader.land(TICK)
        assert read_poll_notes(warehouse) == before, "no object counts as asked"
        assert read_ledger(warehouse).postponed[POLLS].objects == OBJECTS
    assert "3 objects wait for polls since" in sfcdc("status").stdout
    org.org.clock.sleep(3600)
    org.sync()
    org.assert_equal_to_the_org(["Case"])


def test_what_the_share_of_requests_is_not_enough_for_waits_and_no_sync_is_a_success(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.sync()
    rename(org, "Case", 1, "while there is no room")
    org.org.clock.sleep(4000)
    monkeypatch.setenv("SFCDC_POLL_PERCENT", "0")
    done = sfcdc("sync", "--until-caught-up")
    assert done.exit_code == 1
    assert "Not all is polled: " in done.output
    assert "SFCDC_POLL_PERCENT allows them 0 %" in done.output
    requests = json.loads(sfcdc("status", "--json").stdout)["requests"]["polls"]
    assert sorted(requests["waiting"]) == list(OBJECTS)
    assert requests["in_24_hours"] > 0
    assert f"3 objects wait for polls since {requests['waiting_since']}, because" in sfcdc("status").stdout
    monkeypatch.delenv("SFCDC_POLL_PERCENT")
    assert sfcdc("sync", "--until-caught-up").exit_code == 0
    assert json.loads(sfcdc("status", "--json").stdout)["requests"]["polls"]["waiting"] == []
    org.assert_equal_to_the_org(["Case"])


def test_a_field_that_is_gone_is_noticed_and_the_object_is_asked_without_it_at_once(org: EmulatedPipeline) -> None:
    org.org.setup.add_field("Case", "Extra__c", {"type": "string", "length": 20})
    rename(org, "Case", 1, "with another field")
    org.org.clock.sleep(90_000)
    org.sync()
    assert "Extra__c" in next(iter(org.rows("Case").values()))
    org.org.setup.drop_field("Case", "Extra__c")
    rename(org, "Case", 1, "without the field")
    org.org.clock.sleep(2_000)
    done = sfcdc("sync", "--until-caught-up")
    assert done.exit_code == 0, done.output
    assert org.rows("Case")[ids(org.org, "Case")[0]]["Description"] == "without the field"


def test_a_poll_that_finds_a_field_gone_ends_it_in_the_table_of_fields(org: EmulatedPipeline) -> None:
    org.org.setup.add_field("Case", "Left__c", {"type": "string", "length": 20})
    rename(org, "Case", 1, "with another field")
    org.org.clock.sleep(90_000)
    org.sync()
    org.org.setup.drop_field("Case", "Left__c")
    with reading(org) as (reader, _, _warehouse):
        reader.land(NOW_ALL)
    (field,) = (row for row in org.scan("fields") if row["name"] == "Left__c")
    assert field["_valid_to"] is not None


def test_an_object_that_a_run_reads_back_at_the_moment_is_polled_all_the_same(org: EmulatedPipeline) -> None:
    with reading(org) as (reader, _, warehouse):
        reader.land(TICK)
        org.org.clock.sleep(1000)
        rename(org, "Case", 2, "polled beside a read-back")
        org.org.clock.sleep(60)
        taken = Snapshots.open(warehouse, "Case")
        assert taken is not None
        nothing = taken.table.schema.empty_table().drop_columns(READ_OF_COLUMNS.names)

        def read_back() -> None:
            reader.on_events = lambda: None
            taken.add_read_back(nothing, 1)

        reader.on_events = read_back
        assert reader.land(TICK).events["Case"] == 2
        assert read_poll_notes(warehouse)["Case"].error is None
    org.sync()
    rows = org.rows("Case")
    assert {rows[each]["Description"] for each in ids(org.org, "Case")[:2]} == {"polled beside a read-back"}


def test_a_search_for_what_was_deleted_for_good_goes_on_after_another_object_was_searched_before_it(
    org: EmulatedPipeline,
) -> None:
    org.sync()
    with org.org.transaction() as work:
        work.hard_delete("Case", ids(org.org, "Case")[-1])
    with reading(org) as (_, connected, warehouse):
        deletes = HardDeletes(warehouse, connected)
        assert deletes.search("Case", 1, 1) == (False, 0)  # the records are counted
        assert deletes.search("Lead", 1, 5) == (True, 4)
        assert deletes.search("Case", 1, 5) == (True, 3), "what was deleted is asked for, and what is left is counted"
