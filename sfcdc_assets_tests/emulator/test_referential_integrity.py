"""What a delete does to the records that refer to the deleted one, and what an undelete brings back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import DeleteConstraint, ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, object_definition
from sfcdc_assets.emulator.errors import ObjectDefinitionError, RecordError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client


def opportunity(watched: WatchedOrg, account: str) -> str:
    return watched.create("Opportunity", Name="o", StageName="Prospecting", CloseDate="2025-02-01", AccountId=account)


def changes(watched: WatchedOrg) -> list[tuple[object, object, tuple[str, ...]]]:
    return [
        (event.header["entityName"], event.header["changeType"], tuple(sorted(event.set_fields)))
        for event in watched.events()
    ]


def test_a_delete_takes_along_what_is_deleted_with_the_record_and_an_undelete_brings_it_back() -> None:
    watched = WatchedOrg()
    account = watched.create()
    contact = watched.create("Contact", LastName="x", AccountId=account)
    watched.create("Task", Subject="Call", WhoId=contact)
    opportunity(watched, account)
    watched.events()
    watched.commit(lambda work: work.delete("Account", account))
    events = watched.events()
    assert [event.header["entityName"] for event in events] == ["Account", "Contact", "Opportunity", "Task"]
    assert {event.header["changeType"] for event in events} == {"DELETE"}
    assert len({event.header["transactionKey"] for event in events}) == 1
    with watched.org.transaction() as work:
        work.hard_delete("Opportunity", str(events[2].header["recordIds"][0]))
    watched.commit(lambda work: work.undelete("Account", account))
    restored = watched.events()
    assert [event.header["entityName"] for event in restored] == ["Account", "Contact", "Task"], "what is still there"
    assert {event.header["changeType"] for event in restored} == {"UNDELETE"}


def test_what_was_in_the_bin_before_stays_there() -> None:
    watched = WatchedOrg()
    account = watched.create()
    contact = watched.create("Contact", LastName="x", AccountId=account)
    watched.commit(lambda work: work.delete("Contact", contact))
    watched.commit(lambda work: work.delete("Account", account))
    watched.commit(lambda work: work.undelete("Account", account))
    assert (watched.org.record("Contact", contact) or {})["IsDeleted"] is True


def test_a_lookup_is_cleared_by_an_update_of_its_own_and_comes_back_unless_it_was_replaced() -> None:
    watched = WatchedOrg()
    parent, other = watched.create(Name="p"), watched.create(Name="other")
    children = [watched.create(Name=f"c{number}", ParentId=parent) for number in range(2)]
    watched.create("Invoice_Statement__c", Account__c=parent)
    before = watched.org.record("Account", children[0]) or {}
    watched.events()
    watched.clock.advance(60_000)
    watched.commit(lambda work: work.delete("Account", parent))
    assert changes(watched) == [
        ("Account", "DELETE", ()),
        ("Account", "UPDATE", ()),
        ("Invoice_Statement__c", "UPDATE", ()),
    ]
    cleared = watched.org.record("Account", children[0]) or {}
    assert cleared["ParentId"] is None
    assert cleared["LastModifiedDate"] == before["LastModifiedDate"], "the org itself cleared it"
    assert cleared["SystemModstamp"] != before["SystemModstamp"]
    watched.commit(lambda work: work.update("Account", children[1], {"ParentId": other}))
    watched.events()
    watched.commit(lambda work: work.undelete("Account", parent))
    assert [change[:2] for change in changes(watched)] == [
        ("Account", "UNDELETE"),
        ("Account", "UPDATE"),
        ("Invoice_Statement__c", "UPDATE"),
    ]
    assert [(watched.org.record("Account", each) or {})["ParentId"] for each in children] == [parent, other]


def test_a_record_that_a_case_names_cannot_be_deleted_and_nothing_of_its_cascade_is() -> None:
    watched = WatchedOrg()
    account = watched.create(Name="Acme")
    contact = watched.create("Contact", LastName="Byron", AccountId=account)
    task = watched.create("Task", Subject="Call", WhoId=contact)
    case = watched.create("Case", Subject="Broken", ContactId=contact)
    watched.events()
    number = str((watched.org.record("Case", case) or {})["CaseNumber"])
    with rest_client(watched.org) as client:
        answers = [client.send("DELETE", f"/sobjects/{path}") for path in (f"Account/{account}", f"Contact/{contact}")]
    for answer in answers:
        assert answer.status_code == 400
        assert answer.json() == [
            {
                "errorCode": "DELETE_FAILED",
                "message": "Your attempt to delete Byron could not be completed because it is associated with the "
                f"following cases.: {number}",
            }
        ]
    assert watched.events() == []
    assert (watched.org.record("Task", task) or {})["IsDeleted"] is False
    watched.commit(lambda work: work.delete("Case", case))
    watched.commit(lambda work: work.delete("Account", account))
    assert (watched.org.record("Task", task) or {})["IsDeleted"] is True


def test_a_record_comes_back_without_the_lookups_whose_records_are_deleted() -> None:
    watched = WatchedOrg()
    account = watched.create()
    contact = watched.create("Contact", LastName="x", AccountId=account)
    watched.commit(lambda work: work.delete("Account", account))
    watched.events()
    watched.commit(lambda work: work.undelete("Contact", contact))
    assert [change[:2] for change in changes(watched)] == [("Contact", "UNDELETE")]
    assert (watched.org.record("Contact", contact) or {})["AccountId"] is None
    watched.commit(lambda work: work.undelete("Account", account))
    assert (watched.org.record("Contact", contact) or {})["AccountId"] == account


LINES = object_definition(
    {
        "name": "Line__c",
        "label": "Line",
        "key_prefix": "a77",
        "fields": [
            {"Name": {"type": "string"}},
            {"Invoice__c": {"type": "master_detail", "to": "Invoice_Statement__c"}},
        ],
    },
    "test",
)


def test_a_detail_goes_with_its_master_and_does_not_come_back_alone() -> None:
    watched = WatchedOrg()
    watched.org.replace_definition(LINES)
    invoice = watched.create("Invoice_Statement__c")
    line = watched.create("Line__c", Name="1", Invoice__c=invoice)
    watched.commit(lambda work: work.delete("Invoice_Statement__c", invoice))
    assert (watched.org.record("Line__c", line) or {})["IsDeleted"] is True
    with pytest.raises(RecordError, match="the record that Invoice__c refers to is deleted") as refused:
        watched.commit(lambda work: work.undelete("Line__c", line))
    assert refused.value.error_code == "UNDELETE_FAILED"
    watched.commit(lambda work: work.undelete("Invoice_Statement__c", invoice))
    assert (watched.org.record("Line__c", line) or {})["IsDeleted"] is False


def test_what_is_removed_for_good_takes_along_what_went_into_the_bin_with_it() -> None:
    watched = WatchedOrg()
    live, binned = watched.create(), watched.create()
    children = [watched.create("Contact", LastName="x", AccountId=each) for each in (live, binned)]
    watched.commit(lambda work: work.delete("Account", binned))
    watched.events()
    with watched.org.transaction() as work:
        work.hard_delete("Account", binned)
    assert watched.events() == []
    watched.commit(lambda work: work.hard_delete("Account", live))
    assert [change[:2] for change in changes(watched)] == [("Account", "DELETE"), ("Contact", "DELETE")]
    assert [watched.org.record("Contact", each) for each in children] == [None, None]


def test_describe_says_what_a_delete_does() -> None:
    with rest_client(EmulatedOrg(seed=7, objects=(*built_in_definitions(), LINES))) as client:
        described = {
            entity: client.get(f"/sobjects/{entity}/describe").json()
            for entity in ("Account", "Invoice_Statement__c", "Line__c")
        }

    def children(entity: str) -> dict[tuple[str, str], tuple[bool, bool]]:
        return {
            (each["childSObject"], each["field"]): (each["cascadeDelete"], each["restrictedDelete"])
            for each in described[entity]["childRelationships"]
        }

    of_account = children("Account")
    assert of_account["Contact", "AccountId"] == (True, False)
    assert of_account["Case", "AccountId"] == (False, True)
    assert of_account["Account", "ParentId"] == (False, False)
    assert children("Invoice_Statement__c")["Line__c", "Invoice__c"] == (True, False)
    master = next(field for field in described["Line__c"]["fields"] if field["name"] == "Invoice__c")
    said = ("cascadeDelete", "restrictedDelete", "relationshipOrder", "nillable", "updateable")
    assert [master[each] for each in said] == [True, False, 0, False, False]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"delete_constraint": "Vanish"}, "is 'Vanish', and not one of SetNull, Restrict, Cascade"),
        ({"delete_constraint": "SetNull", "required": True}, "a required reference cannot be cleared"),
        ({"delete_constraint": "Restrict", "type": "master_detail"}, "a delete of a master always cascades"),
    ],
)
def test_a_wrong_constraint_is_named(options: dict[str, object], error: str) -> None:
    with pytest.raises(ObjectDefinitionError, match=error):
        field_definition("Line__c", "Account__c", {"type": "reference", "to": "Account", **options})


def test_a_required_lookup_refuses_the_delete_by_itself() -> None:
    options = {"type": "reference", "to": "Account", "required": True}
    assert field_definition("Line__c", "Account__c", options).delete_constraint is DeleteConstraint.RESTRICT


def test_an_org_of_an_earlier_version_keeps_its_cascades() -> None:
    document = next(each for each in built_in_definitions() if each.name == "Contact").to_json()
    for field in document["fields"]:
        del field["is_master_detail"]
        field["cascade_delete"] = field.pop("delete_constraint") == "Cascade"
    read = ObjectDefinition.from_json(document)
    assert read.fields_by_name["AccountId"].delete_constraint is DeleteConstraint.CASCADE
    assert read.fields_by_name["ReportsToId"].delete_constraint is DeleteConstraint.SET_NULL


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_whatever_happens_no_live_record_refers_to_a_deleted_one(seed: int) -> None:
    org = EmulatedOrg(seed=seed)
    org.populate(6, seed=seed)
    TrafficGenerator(org, seed, FULL_MIX).run(transactions=40)
    live = {entity: {str(record["Id"]) for record in org.records(entity)} for entity in org.definitions}
    merged = {
        str(record["Id"])
        for entity, definition in org.definitions.items()
        if "MasterRecordId" in definition.fields_by_name
        for record in org.records(entity, include_deleted=True)
        if record["MasterRecordId"] is not None
    }
    # Merges of traffic now and then leave the children where they are.
    prefixes = {definition.key_prefix for definition in org.definitions.values()}
    everywhere = set().union(*live.values(), merged)
    for entity, definition in org.definitions.items():
        for record in org.records(entity):
            named = {str(record[field.name]) for field in definition.foreign_keys if record[field.name] is not None}
            assert {each for each in named if each[:3] in prefixes} <= everywhere, (entity, record["Id"])


def test_the_oracle_goes_back_behind_cascades() -> None:
    org = EmulatedOrg(seed=11)
    org.populate(8, seed=11)
    first = {entity: {str(record["Id"]) for record in org.records(entity)} for entity in org.definitions}
    TrafficGenerator(org, 11).run(transactions=60)
    assert {entity: set(records) for entity, records in org.state_at(0).items()} == first


def test_an_org_in_a_folder_clears_lookups_after_it_was_opened_again(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path, seed=7)
    with org.transaction() as work:
        parent = work.create("Account", {"Name": "p"})
        child = work.create("Account", {"Name": "c", "ParentId": parent})
    with org.transaction() as work:
        work.delete("Account", parent)
    org.close()
    org = EmulatedOrg(tmp_path)
    assert (org.record("Account", child) or {})["ParentId"] is None
    with org.transaction() as work:
        work.undelete("Account", parent)
    assert (org.record("Account", child) or {})["ParentId"] == parent
    org.close()
