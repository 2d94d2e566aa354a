"""Gap, overflow, wildcard and lost events."""

from __future__ import annotations

import re

import pytest

from sfcdc_assets.emulator.cometd.event_json import writer_of
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.ids import EMPTY_ID, id_suffix
from sfcdc_assets_tests.emulator.decoded_events import DecodedEvent, WatchedOrg


def assert_is_empty(event: DecodedEvent) -> None:
    assert event.set_fields == set()
    assert [event.header[name] for name in ("changedFields", "nulledFields", "diffFields")] == [[], [], []]


def test_an_event_that_is_too_large_becomes_a_gap() -> None:
    watched = WatchedOrg(max_event_bytes=20_000)
    record_id = watched.create(Description="x" * 30_000)
    watched.update(record_id, Description="y" * 30_000)
    watched.update(record_id, Phone="1")
    created, updated, small = watched.events()
    assert [event.header["changeType"] for event in (created, updated, small)] == ["GAP_CREATE", "GAP_UPDATE", "UPDATE"]
    assert created.header["recordIds"] == [record_id]
    for event in (created, updated):
        assert_is_empty(event)


def test_the_limit_of_an_event_is_one_megabyte() -> None:
    assert WatchedOrg().org.settings.max_event_bytes == 1_048_576


def test_an_internal_error_leaves_a_gap_of_the_same_kind() -> None:
    watched = WatchedOrg()
    watched.faults.arm(Fault.INTERNAL_ERROR, 4)
    record_id = watched.create()
    watched.update(record_id, Phone="1")
    watched.commit(lambda work: work.delete("Account", record_id))
    watched.commit(lambda work: work.undelete("Account", record_id))
    watched.update(record_id, Phone="2")
    events = watched.events()
    assert [event.header["changeType"] for event in events] == [
        "GAP_CREATE",
        "GAP_UPDATE",
        "GAP_DELETE",
        "GAP_UNDELETE",
        "UPDATE",
    ]
    for event in events[:4]:
        assert_is_empty(event)
        assert event.header["recordIds"] == [record_id]
    assert watched.faults.armed(Fault.INTERNAL_ERROR) == 0


def test_faults_are_not_used_up_by_objects_that_are_not_selected() -> None:
    watched = WatchedOrg()
    watched.org.selected_entities = ["Account"]
    watched.faults.arm(Fault.INTERNAL_ERROR)
    watched.create("Contact", LastName="x")
    assert watched.faults.armed(Fault.INTERNAL_ERROR) == 1
    watched.create()
    assert [event.header["changeType"] for event in watched.events()] == ["GAP_CREATE"]


def test_a_change_in_the_database_is_one_gap_of_several_records_with_a_database_id() -> None:
    watched = WatchedOrg()
    ids = [watched.create() for _ in range(3)]
    contact = watched.create("Contact", LastName="x")
    watched.events()
    watched.faults.arm(Fault.DATABASE_CHANGE)
    transaction = watched.commit(
        lambda work: [
            *(work.update("Account", one, {"Phone": str(n)}) for n, one in enumerate(ids)),
            work.delete("Contact", contact),
        ]
    )
    accounts, contacts = watched.events()
    assert (accounts.header["changeType"], accounts.header["recordIds"]) == ("GAP_UPDATE", ids)
    assert (contacts.header["changeType"], contacts.header["recordIds"]) == ("GAP_DELETE", [contact])
    for event in (accounts, contacts):
        assert_is_empty(event)
        assert event.header["sequenceNumber"] == 1
        assert re.fullmatch(r"0Mc[0-9A-Za-z]{12}", event.header["transactionKey"])
        assert event.header["commitNumber"] == transaction.commit_number


@pytest.mark.parametrize("keeps_first", [True, False])
def test_what_a_transaction_changes_beyond_the_threshold_is_one_event_an_object(keeps_first: bool) -> None:
    watched = WatchedOrg(overflow_threshold=4, overflow_keeps_first=keeps_first)
    ids = [watched.create() for _ in range(4)]
    watched.events()

    def work_of_seven_changes(work) -> None:
        work.update("Account", ids[0], {"Phone": "1"})  # 2 changes: Phone, LastModifiedDate
        work.delete("Account", ids[1])  # 1
        work.update("Account", ids[2], {"Phone": "2", "Fax": "3"})  # 3: beyond
        work.create("Contact", {"LastName": "x"})
        work.delete("Account", ids[3])

    watched.commit(work_of_seven_changes)
    events = watched.events()
    kinds = [(event.header["entityName"], event.header["changeType"]) for event in events]
    overflow = [("Account", "GAP_OVERFLOW"), ("Contact", "GAP_OVERFLOW")]
    assert kinds == ([("Account", "UPDATE"), ("Account", "DELETE")] if keeps_first else []) + overflow
    for event in events[-2:]:
        assert_is_empty(event)
        assert event.header["recordIds"] == [EMPTY_ID]
    assert id_suffix(EMPTY_ID[:15]) == "AAA"


def test_a_transaction_at_the_threshold_does_not_overflow_and_the_other_spelling_is_a_setting() -> None:
    watched = WatchedOrg(overflow_threshold=1, overflow_record_id="00000000000000AAA")
    watched.create()
    watched.commit(lambda work: [work.create("Account", {"Name": name}) for name in "ab"])
    first, second, overflow = watched.events()
    assert (first.header["changeType"], second.header["changeType"]) == ("CREATE", "CREATE")
    assert overflow.header["recordIds"] == ["00000000000000AAA"]
    assert WatchedOrg().org.settings.overflow_threshold == 100_000


def test_an_armed_overflow_waits_for_a_transaction_large_enough() -> None:
    watched = WatchedOrg()
    watched.faults.arm(Fault.OVERFLOW, threshold=1)
    watched.create()
    watched.commit(lambda work: [work.create("Account", {"Name": name}) for name in "ab"])
    watched.commit(lambda work: [work.create("Account", {"Name": name}) for name in "cd"])
    kinds = [event.header["changeType"] for event in watched.events()]
    assert kinds == ["CREATE", "CREATE", "GAP_OVERFLOW", "CREATE", "CREATE"]


@pytest.mark.parametrize("names_field", [True, False])
def test_an_incompatible_conversion_nulls_a_field_of_all_records_with_one_wildcard_event(names_field: bool) -> None:
    watched = WatchedOrg(wildcard_names_field=names_field)
    ids = [watched.create(Phone=str(number)) for number in range(3)]
    watched.commit(lambda work: work.delete("Account", ids[0]))
    watched.events()
    watched.faults.arm(Fault.INTERNAL_ERROR)
    watched.faults.arm(Fault.LOST_EVENT)
    transaction = watched.commit(lambda work: work.clear_field("Account", "Phone"))
    (event,) = watched.events()
    assert (event.header["changeType"], event.header["recordIds"]) == ("UPDATE", ["001*"])
    assert event.set_fields == set()
    expected = watched.bitmap("Phone") if names_field else []
    assert (event.header["changedFields"], event.header["nulledFields"]) == (expected, expected)
    schema = watched.bus.schema_json(event.stored.schema_id)
    assert schema is not None
    in_json = writer_of(schema).payload(event.stored.payload)
    assert set(in_json) == {"ChangeEventHeader"}, "over CometD its body is empty too"
    assert [record["Phone"] for record in watched.org.records("Account", include_deleted=True)] == [None] * 3
    assert list(watched.org.transactions())[-1] == transaction


def test_a_field_that_others_depend_on_cannot_be_cleared() -> None:
    watched = WatchedOrg()
    record_id = watched.create()
    for name in ("Name", "OwnerId", "CreatedDate", "Nonsense"):
        with pytest.raises(RecordError):
            watched.commit(lambda work, name=name: work.clear_field("Account", name))
    with pytest.raises(RecordError, match="of its own"):
        watched.commit(lambda work: [work.delete("Account", record_id), work.clear_field("Account", "Phone")])
    record = watched.org.record("Account", record_id)
    assert record is not None
    assert record["IsDeleted"] is False


def test_a_conversion_that_keeps_values_is_a_gap_for_each_record_that_has_one() -> None:
    watched = WatchedOrg()
    ids = [watched.create(Industry=industry) for industry in ("Banking", "Banking", None)]
    schema = watched.events()[0].stored.schema_id
    change = watched.org.setup.change_type("Account", "Industry", {"type": "multipicklist"})
    assert (change.notice, change.records) == ("gaps", 2)
    events = watched.events()
    reported = [(event.header["changeType"], event.header["recordIds"]) for event in events]
    assert reported == [("GAP_UPDATE", [one]) for one in ids[:2]]
    for event in events:
        assert_is_empty(event)
        assert event.stored.schema_id == schema  # only the field's doc is another, and that is no part of the id
    assert watched.org.definitions["Account"].fields_by_name["Industry"].type == "multipicklist"
    assert all(change.is_conversion for change in list(watched.org.transactions())[-1].changes)


def test_a_lost_change_leaves_no_trace_in_the_stream() -> None:
    watched = WatchedOrg()
    ids = [watched.create() for _ in range(2)]
    watched.events()
    watched.faults.arm(Fault.LOST_EVENT)
    watched.commit(
        lambda work: [work.update("Account", ids[0], {"Phone": "1"}), work.update("Account", ids[1], {"Fax": "2"})]
    )
    (event,) = watched.events()
    assert (event.header["recordIds"], event.header["sequenceNumber"]) == ([ids[1]], 1)
    record = watched.org.record("Account", ids[0])
    assert record is not None
    assert record["Phone"] == "1"
