"""Filter expressions of channel members: which events a channel has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.event_store import EVERYWHERE
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.setup.channels import CHANGE_EVENTS
from sfcdc_assets_tests.emulator.decoded_events import DecodedEvent, WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client

SALES = "SalesEvents__chn"
ENERGY = "Industry = 'Energy' AND NumberOfEmployees > 10"


@pytest.fixture
def watched() -> WatchedOrg:
    watched = WatchedOrg()
    watched.org.channels.create(SALES)
    watched.org.channels.add_member(SALES, "Account", filter_expression=ENERGY)
    return watched


def events(watched: WatchedOrg, channel: str = SALES) -> list[DecodedEvent]:
    batch = watched.bus.read(watched.org.definitions, after=0, max_events=1000, max_bytes=10**9, channels=(channel,))
    return [watched.decoded(event) for event in batch.events]


def test_a_record_that_leaves_the_filter_raises_no_event_on_the_channel_and_one_that_enters_does(
    watched: WatchedOrg,
) -> None:
    record_id = watched.create(Industry="energy", NumberOfEmployees=11)
    watched.create(Industry="Energy", NumberOfEmployees=10)
    watched.update(record_id, Rating="Hot")
    watched.update(record_id, Industry="Banking")
    watched.update(record_id, Rating="Cold")
    watched.update(record_id, Industry="Energy")
    with watched.org.transaction() as work:
        work.delete("Account", record_id)
    seen = events(watched)
    assert [event.header["changeType"] for event in seen] == ["CREATE", "UPDATE", "UPDATE", "DELETE"]
    assert {event.header["recordIds"][0] for event in seen} == {record_id}
    assert [event.body["Rating"] for event in seen[1:3]] == ["Hot", None]
    assert len(events(watched, EVERYWHERE)) == 7


def test_events_carry_the_fields_of_the_filter(watched: WatchedOrg) -> None:
    record_id = watched.create(Industry="Energy", NumberOfEmployees=11)
    watched.update(record_id, Rating="Hot")
    assert (events(watched)[1].body["Industry"], events(watched)[1].body["NumberOfEmployees"]) == ("Energy", 11)


@pytest.mark.parametrize("expression", ["Status = 'Completed'", "Status = 'Completed' AND IsDeleted = FALSE"])
def test_an_activity_is_filtered_though_queries_leave_archived_ones_out(watched: WatchedOrg, expression: str) -> None:
    watched.org.channels.add_member(SALES, "Task", filter_expression=expression)
    with watched.org.transaction() as work:
        task = work.create("Task", {"Subject": "call", "Status": "Not Started", "Priority": "Normal"})
    with watched.org.transaction() as work:
        work.update("Task", task, {"Status": "Completed"})
    (seen,) = events(watched)
    assert (seen.header["changeType"], seen.header["recordIds"]) == ("UPDATE", [task])


def test_of_several_records_of_one_change_those_in_the_filter_have_events(watched: WatchedOrg) -> None:
    first = watched.create(Industry="Energy", NumberOfEmployees=11)
    second = watched.create(Industry="Banking")
    with watched.org.transaction() as work:
        for record_id in (first, second):
            work.update("Account", record_id, {"Rating": "Hot"})
    assert [event.header["recordIds"] for event in events(watched)] == [[first], [first]]


def test_a_gap_tells_no_values_and_passes(watched: WatchedOrg) -> None:
    watched.bus.faults.arm(Fault.INTERNAL_ERROR, 1)
    record_id = watched.create(Industry="Banking")
    (gap,) = events(watched)
    assert (gap.header["changeType"], gap.header["recordIds"]) == ("GAP_CREATE", [record_id])


@pytest.mark.parametrize("expression", ["Nmae = 'a'", "Industry =", "Name = 'a' LIMIT 1", "Name = 3", ""])
def test_what_is_no_condition_over_the_object_is_refused(watched: WatchedOrg, expression: str) -> None:
    with pytest.raises(RecordError):
        watched.org.channels.add_member(SALES, "Lead", filter_expression=expression)
    with pytest.raises(RecordError, match="ChangeEvents"):
        watched.org.channels.add_member(CHANGE_EVENTS, "Lead", filter_expression="Name = 'a'")


def test_the_tooling_api_sets_changes_and_tells_the_filter_and_it_is_kept(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path, clock=ManualClock())
    org.channels.create(SALES)
    soql = "SELECT SelectedEntity, FilterExpression FROM PlatformEventChannelMember WHERE FilterExpression != null"
    metadata = {"eventChannel": SALES, "selectedEntity": "AccountChangeEvent"}
    with rest_client(org) as client:
        body = {"FullName": "x", "Metadata": {**metadata, "filterExpression": ENERGY}}
        member = client.post("/tooling/sobjects/PlatformEventChannelMember", body).json()["id"]
        path = f"/tooling/sobjects/PlatformEventChannelMember/{member}"
        (reported,) = client.get("/tooling/query", params={"q": soql}).json()["records"]
        assert (reported["SelectedEntity"], reported["FilterExpression"]) == ("AccountChangeEvent", ENERGY)
        assert client.get(path).json()["Metadata"]["filterExpression"] == ENERGY
        org.close()
        again = EmulatedOrg(tmp_path, clock=ManualClock())
        assert again.channels.filter_expression(SALES, "Account") == ENERGY
        again.channels.filter_events(member, None)
        assert again.channels.filter_expression(SALES, "Account") is None
        again.close()
