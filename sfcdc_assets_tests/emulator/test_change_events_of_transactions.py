"""What events a transaction becomes: which fields they name and carry, how they are merged and numbered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import pytest
from fastavro import parse_schema, schemaless_reader

from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.events.change_event_builder import ChangeEvent, ChangeEventBuilder
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock(), seed=5)


@pytest.fixture
def builder(org: EmulatedOrg) -> ChangeEventBuilder:
    return ChangeEventBuilder(lambda: org.definitions)


def commit(org: EmulatedOrg, work: Callable[[UnitOfWork], object], **options: str) -> Transaction:
    with org.transaction(**options) as unit_of_work:
        work(unit_of_work)
    assert unit_of_work.committed is not None
    return unit_of_work.committed


def decoded(builder: ChangeEventBuilder, event: ChangeEvent) -> dict:
    return schemaless_reader(BytesIO(event.payload), parse_schema(builder.codec(event.entity).schema), None)


def create_account(org: EmulatedOrg, **values: object) -> str:
    with org.transaction() as unit_of_work:
        return unit_of_work.create("Account", {"Name": "Acme", **values})


def test_a_create_carries_every_field_and_no_bitmap(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    transaction = commit(
        org,
        lambda work: work.create("Contact", {"FirstName": "Ada", "LastName": "L", "MailingCity": "Lyon"}),
        change_origin="com/salesforce/api/rest/65.0;client=x",
    )
    (event,) = builder.events(transaction, {"Contact"})
    body = decoded(builder, event)
    header = body["ChangeEventHeader"]
    assert header["changeType"] == "CREATE"
    assert header["entityName"] == "Contact"
    assert header["recordIds"] == [transaction.changes[0].record_id]
    assert header["transactionKey"] == transaction.transaction_key
    assert header["commitNumber"] == transaction.commit_number
    assert header["commitTimestamp"] == transaction.commit_timestamp
    assert header["commitUser"] == org.users.integration
    assert header["changeOrigin"] == "com/salesforce/api/rest/65.0;client=x"
    assert (header["changedFields"], header["nulledFields"], header["diffFields"]) == ([], [], [])
    assert body["Name"] == {"Salutation": None, "FirstName": "Ada", "LastName": "L"}
    assert body["MailingAddress"]["City"] == "Lyon"
    assert body["OtherAddress"] is None
    assert body["CreatedDate"] == transaction.commit_timestamp
    assert body["DoNotCall"] is False


def test_an_update_carries_only_what_changed(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    account = create_account(org, Phone="1", Fax="2")
    transaction = commit(org, lambda work: work.update("Account", account, {"Phone": "3"}))
    (event,) = builder.events(transaction, {"Account"})
    body = decoded(builder, event)
    codec = builder.codec("Account")
    assert body["Phone"] == "3"
    assert body["Fax"] is None
    assert body["Name"] is None
    assert body["ChangeEventHeader"]["changedFields"] == codec.bitmap(["Phone", "LastModifiedDate"])
    assert body["ChangeEventHeader"]["nulledFields"] == []


def test_a_nulled_field_is_both_changed_and_nulled(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    account = create_account(org, Phone="1")
    transaction = commit(org, lambda work: work.update("Account", account, {"Phone": None}))
    header = decoded(builder, builder.events(transaction, {"Account"})[0])["ChangeEventHeader"]
    codec = builder.codec("Account")
    assert header["nulledFields"] == codec.bitmap(["Phone"])
    assert header["changedFields"] == codec.bitmap(["Phone", "LastModifiedDate"])


def test_components_are_nested_and_leave_their_parents_bit_clear(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    account = create_account(org, ShippingStreet="s", ShippingCity="c")
    transaction = commit(
        org, lambda work: work.update("Account", account, {"ShippingStreet": None, "BillingCity": "b"})
    )
    body = decoded(builder, builder.events(transaction, {"Account"})[0])
    header = body["ChangeEventHeader"]
    positions = builder.codec("Account").positions
    billing, shipping = positions["BillingAddress"][0], positions["ShippingAddress"][0]
    assert header["changedFields"][1:] == [f"{billing}-0x02", f"{shipping}-0x01"]
    assert not int(header["changedFields"][0], 16) & (1 << billing | 1 << shipping)
    assert header["nulledFields"] == [f"{shipping}-0x01"]
    assert body["BillingAddress"]["City"] == "b"
    assert body["ShippingAddress"] is None


def test_a_change_by_the_org_itself_has_no_plain_bitmap_at_all(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    """The asynchronous geocoder: `["6-0x0180"]` in the captured payload (docs/salesforce-streams.md, "Bitmaps")."""
    account = create_account(org)
    transaction = commit(
        org,
        lambda work: work.update("Account", account, {"ShippingLatitude": 1.5, "ShippingLongitude": 2.5}, touch=False),
    )
    (element,) = decoded(builder, builder.events(transaction, {"Account"})[0])["ChangeEventHeader"]["changedFields"]
    assert element.startswith(f"{builder.codec('Account').positions['ShippingAddress'][0]}-0x")


def test_a_custom_objects_geolocation_is_published_whole(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    where = {"Location__Latitude__s": 1.0, "Location__Longitude__s": 2.0}
    with org.transaction() as work:
        invoice = work.create("Invoice_Statement__c", where)
    transaction = commit(org, lambda w: w.update("Invoice_Statement__c", invoice, {"Location__Latitude__s": 9.0}))
    body = decoded(builder, builder.events(transaction, {"Invoice_Statement__c"})[0])
    assert body["Location__c"] == {"Latitude": 9.0, "Longitude": 2.0}
    position = builder.codec("Invoice_Statement__c").positions["Location__c"][0]
    assert f"{position}-0x03" in body["ChangeEventHeader"]["changedFields"]


def test_a_delete_is_empty_and_an_undelete_is_full(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    account = create_account(org, Phone="1")
    deleted = decoded(
        builder, builder.events(commit(org, lambda work: work.delete("Account", account)), {"Account"})[0]
    )
    assert deleted.pop("ChangeEventHeader")["changeType"] == "DELETE"
    assert set(deleted.values()) == {None}
    undeleted = decoded(
        builder, builder.events(commit(org, lambda work: work.undelete("Account", account)), {"Account"})[0]
    )
    assert undeleted["ChangeEventHeader"]["changeType"] == "UNDELETE"
    assert undeleted["ChangeEventHeader"]["changedFields"] == []
    assert undeleted["Phone"] == "1"


def test_the_same_change_of_several_records_is_one_event(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    ids = [create_account(org, Rating="Cold") for _ in range(4)]

    def work(unit_of_work: UnitOfWork) -> None:
        for record_id in ids[:3]:
            unit_of_work.update("Account", record_id, {"Rating": "Hot"})
        unit_of_work.update("Account", ids[3], {"Rating": "Warm"})

    events = builder.events(commit(org, work), {"Account"})
    assert [event.record_ids for event in events] == [tuple(ids[:3]), (ids[3],)]
    assert [event.sequence_number for event in events] == [1, 2]


def test_setting_a_value_and_nulling_it_are_not_the_same_change(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    ids = [create_account(org, Phone="1") for _ in range(2)]

    def work(unit_of_work: UnitOfWork) -> None:
        unit_of_work.update("Account", ids[0], {"Phone": None})
        unit_of_work.update("Account", ids[1], {"Phone": "2"})

    assert len(builder.events(commit(org, work), {"Account"})) == 2


def test_a_merged_event_is_split_at_the_greatest_number_of_records(org: EmulatedOrg) -> None:
    builder = ChangeEventBuilder(lambda: org.definitions, max_record_ids=2)
    ids = [create_account(org) for _ in range(5)]

    def work(unit_of_work: UnitOfWork) -> None:
        for record_id in ids:
            unit_of_work.delete("Account", record_id)

    assert [len(event.record_ids) for event in builder.events(commit(org, work), {"Account"})] == [2, 2, 1]


def test_an_object_that_is_not_selected_leaves_a_hole_in_the_numbers(
    org: EmulatedOrg, builder: ChangeEventBuilder
) -> None:
    def work(unit_of_work: UnitOfWork) -> None:
        unit_of_work.create("Account", {"Name": "a"})
        unit_of_work.create("Contact", {"LastName": "c"})
        unit_of_work.create("Lead", {"LastName": "l", "Company": "c"})

    events = builder.events(commit(org, work), {"Account", "Lead"})
    assert [(event.entity, event.sequence_number) for event in events] == [("Account", 1), ("Lead", 3)]


def test_a_step_can_rewrite_the_events_of_a_transaction(org: EmulatedOrg) -> None:
    """The place where differences, gaps and overflow come in."""
    builder = ChangeEventBuilder(
        lambda: org.definitions,
        steps=[lambda transaction, drafts: [replace(each, change_type="GAP_UPDATE", values={}) for each in drafts]],
    )
    transaction = commit(org, lambda work: work.create("Account", {"Name": "a"}))
    (event,) = builder.events(transaction, {"Account"})
    assert decoded(builder, event)["ChangeEventHeader"]["changeType"] == "GAP_UPDATE"
    assert decoded(builder, event)["Name"] is None


def test_a_new_field_changes_the_schema_of_the_next_event(org: EmulatedOrg, builder: ChangeEventBuilder) -> None:
    first = builder.events(commit(org, lambda work: work.create("Account", {"Name": "a"})), {"Account"})[0]
    more = object_definition(
        {"name": "X", "label": "X", "key_prefix": "0xx", "fields": [{"New__c": {"type": "string"}}]}, "test"
    ).fields_by_name["New__c"]
    account = org.definitions["Account"]
    org.replace_definition(account.with_fields((*account.fields, more)))
    transaction = commit(org, lambda work: work.create("Account", {"Name": "a", "New__c": "n"}))
    second = builder.events(transaction, {"Account"})[0]
    assert second.schema_id != first.schema_id
    assert decoded(builder, second)["New__c"] == "n"
