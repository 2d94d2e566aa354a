"""Fields and objects that come, go and change while the org lives, and what events and the oracle say of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.errors import ObjectDefinitionError, RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

PARCEL = {
    "name": "Parcel__c",
    "label": "Parcel",
    "key_prefix": "a0p",
    "fields": [{"Name": {"type": "autonumber", "format": "P-{0000}"}}, {"Weight__c": {"type": "double"}}],
}


@pytest.fixture
def watched() -> WatchedOrg:
    return WatchedOrg()


def value(watched: WatchedOrg, record_id: str, name: str) -> Any:
    record = watched.org.record("Account", record_id)
    assert record is not None
    return record[name]


def test_a_new_field_gives_the_next_event_a_new_schema_and_older_events_keep_theirs(watched: WatchedOrg) -> None:
    record_id = watched.create()
    watched.org.setup.add_field("Account", "Region__c", {"type": "string"})
    watched.update(record_id, Region__c="North")
    first, second = watched.events()
    assert first.stored.schema_id != second.stored.schema_id
    assert "Region__c" not in first.body
    assert second.body["Region__c"] == "North"


def test_values_a_new_field_brings_raise_no_event(watched: WatchedOrg) -> None:
    ids = [watched.create(Name=name) for name in ("a", "b")]
    watched.events()
    modified = value(watched, ids[0], "SystemModstamp")
    watched.org.setup.add_field("Account", "Code__c", {"type": "string"}, values=lambda row: f"code {row['Name']}")
    watched.org.setup.add_field("Account", "Checked__c", {"type": "boolean", "default": True})
    watched.org.setup.add_field("Account", "Score__c", {"type": "double"}, values={ids[1]: 4.5})
    assert watched.events() == []
    assert [value(watched, one, "Code__c") for one in ids] == ["code a", "code b"]
    assert [value(watched, one, "Checked__c") for one in ids] == [True, True]
    assert [value(watched, one, "Score__c") for one in ids] == [None, 4.5]
    assert value(watched, ids[0], "SystemModstamp") == modified


def test_a_new_geolocation_comes_with_its_parts(watched: WatchedOrg) -> None:
    record_id = watched.create()
    watched.org.setup.add_field("Account", "Depot__c", {"type": "location"})
    watched.update(record_id, Depot__Latitude__s=1.5)
    assert watched.events()[-1].body["Depot__c"] == {"Latitude": 1.5, "Longitude": None}


def test_a_dropped_field_shortens_the_schema_and_made_again_it_is_another_one(watched: WatchedOrg) -> None:
    record_id = watched.create(SLASerialNumber__c="17")
    before = watched.org.definitions["Account"].fields_by_name["SLASerialNumber__c"].field_id
    watched.org.setup.drop_field("Account", "SLASerialNumber__c")
    watched.update(record_id, Phone="1")
    watched.org.setup.add_field("Account", "SLASerialNumber__c", {"type": "string"})
    watched.update(record_id, Phone="2")
    assert ["SLASerialNumber__c" in event.body for event in watched.events()] == [True, False, True]
    assert watched.org.definitions["Account"].fields_by_name["SLASerialNumber__c"].field_id != before
    assert value(watched, record_id, "SLASerialNumber__c") is None


def test_a_renamed_field_keeps_its_values_under_the_new_name(watched: WatchedOrg) -> None:
    record_id = watched.create(SLASerialNumber__c="17")
    watched.org.setup.rename_field("Account", "SLASerialNumber__c", "Serial__c")
    assert value(watched, record_id, "Serial__c") == "17"
    watched.update(record_id, Serial__c="18")
    last = watched.events()[-1].body
    assert last["Serial__c"] == "18"
    assert "SLASerialNumber__c" not in last


@pytest.mark.parametrize(
    ("field", "value_before", "options", "value_after"),
    [
        ("NumberOfEmployees", 7, {"type": "double"}, 7.0),
        ("SLASerialNumber__c", "1 2", {"type": "long_text"}, "1 2"),
        ("SLASerialNumber__c", "12 45678", {"type": "string", "length": 3}, "12"),
        ("Health_Score__c", 12.3456, {"type": "double", "scale": 1}, 12.3),
        ("Health_Score__c", 12.5, {"type": "int"}, 13),
        ("Health_Score__c", 12.5, {"type": "string"}, "12.5"),
        ("Active__c", "Yes", {"type": "string"}, "Yes"),
        ("Credit_Limit__c", 5.25, {"type": "percent"}, 5.25),
    ],
)
def test_a_compatible_or_truncating_conversion_raises_no_event(
    watched: WatchedOrg, field: str, value_before: object, options: dict[str, Any], value_after: object
) -> None:
    record_id = watched.create(**{field: value_before})
    watched.events()
    assert watched.org.setup.change_type("Account", field, options).notice == "none"
    assert watched.events() == []
    assert value(watched, record_id, field) == value_after
    assert type(value(watched, record_id, field)) is type(value_after)


@pytest.mark.parametrize(
    ("field", "value_before", "options", "value_after"),
    [
        ("SLASerialNumber__c", "17", {"type": "double"}, None),
        ("SLASerialNumber__c", "17", {"type": "boolean"}, False),
        ("Regions__c", "North;East", {"type": "picklist"}, None),
        ("Regions__c", "North;East", {"type": "string"}, None),
        ("Support_Opens__c", "08:00:00.000", {"type": "date"}, None),
        ("Is_Partner__c", True, {"type": "string"}, None),
        ("SLAExpirationDate__c", "2025-12-31", {"type": "datetime"}, None),
        ("SLAExpirationDate__c", "2025-12-31", {"type": "string"}, None),
        ("Next_Review__c", 1_735_689_600_000, {"type": "date"}, None),
    ],
)
def test_an_incompatible_conversion_nulls_the_field_and_raises_one_event_for_all_records(
    watched: WatchedOrg, field: str, value_before: object, options: dict[str, Any], value_after: object
) -> None:
    ids = [watched.create(**{field: value_before}) for _ in range(2)]
    old_schema = watched.events()[-1].stored.schema_id
    assert watched.org.setup.change_type("Account", field, options).notice == "wildcard"
    (event,) = watched.events()
    assert event.header["recordIds"] == ["001*"]
    assert event.header["changedFields"] == watched.bitmap(field)
    # Where the type is the same in Avro, only docs change, which are no part of the id.
    in_avro = {str: "text", int: "number", bool: "truth"}
    before = (
        "number"
        if field in ("Support_Opens__c", "SLAExpirationDate__c", "Next_Review__c")
        else in_avro[type(value_before)]
    )
    after = {"string": "text", "picklist": "text", "date": "number", "datetime": "number"}.get(options["type"], "other")
    assert (event.stored.schema_id != old_schema) == (before != after)
    assert [value(watched, one, field) for one in ids] == [value_after] * 2


def test_a_picklist_that_becomes_a_checkbox_is_a_gap_for_each_record_with_a_value(watched: WatchedOrg) -> None:
    ids = [watched.create(Active__c=choice) for choice in ("Yes", "No", None)]
    watched.events()
    watched.org.setup.change_type("Account", "Active__c", {"type": "boolean"})
    reported = [(event.header["changeType"], event.header["recordIds"]) for event in watched.events()]
    assert reported == [("GAP_UPDATE", [ids[0]]), ("GAP_UPDATE", [ids[1]])]
    assert [value(watched, one, "Active__c") for one in ids] == [True, False, False]


def test_what_is_in_use_or_belongs_to_the_org_is_not_changed(watched: WatchedOrg) -> None:
    setup = watched.org.setup
    refused = [
        lambda: setup.drop_field("Account", "Industry"),
        lambda: setup.drop_field("Account", "Nonsense__c"),
        lambda: setup.rename_field("Account", "SLA__c", "Active__c"),
        lambda: setup.add_field("Account", "active__c", {"type": "string"}),
        lambda: setup.add_field("Account", "Standard", {"type": "string"}),
        lambda: setup.add_field("Nonsense", "X__c", {"type": "string"}),
        lambda: setup.change_type("Opportunity", "Amount", {"type": "string"}),
        lambda: setup.change_type("Account", "CreatedDate", {"type": "date"}),
        lambda: setup.change_type("Account", "Primary_Contact__c", {"type": "string"}),
        lambda: setup.change_type("Account", "SLA__c", {"type": "location"}),
        lambda: setup.drop_field("Invoice_Statement__c", "Amount__c"),
    ]
    before = watched.org.definitions
    for change in refused:
        with pytest.raises(RecordError):
            change()
    with pytest.raises(ObjectDefinitionError):
        setup.add_field("Account", "X__c", {"type": "nonsense"})
    assert watched.org.definitions is before


def test_a_new_object_that_is_selected_has_events_at_once(watched: WatchedOrg) -> None:
    watched.org.setup.add_object(object_definition(PARCEL, "test"))
    record_id = watched.create("Parcel__c", Weight__c=2)
    (event,) = watched.events()
    assert event.header["entityName"] == "Parcel__c"
    assert event.header["recordIds"] == [record_id]
    with pytest.raises(RecordError, match="already"):
        watched.org.setup.add_object(object_definition(PARCEL, "test"))


def test_the_oracle_knows_every_past_state_through_all_changes_of_fields(watched: WatchedOrg) -> None:
    org = watched.org
    org.populate({"Account": 5})
    states = {0: org.state_at(0)}
    assert len(states[0]["Account"]) == 5
    ids = [str(record["Id"]) for record in org.records("Account")]

    def note() -> None:
        states[org.last_commit_number] = {
            entity: {
                str(record["Id"]): {field.name: record[field.name] for field in definition.stored_fields}
                for record in org.records(entity)
            }
            for entity, definition in org.definitions.items()
        }

    watched.update(ids[0], Industry="Energy", SLASerialNumber__c="1")
    note()
    org.setup.add_field("Account", "Code__c", {"type": "string"}, values=lambda row: str(row["Name"])[:5])
    org.setup.change_type("Account", "Health_Score__c", {"type": "string"})
    watched.update(ids[1], Code__c="x")
    note()
    org.setup.change_type("Account", "SLASerialNumber__c", {"type": "double"})
    note()
    org.setup.rename_field("Account", "Code__c", "Sign__c")
    watched.commit(lambda work: work.delete("Account", ids[2]))
    note()
    org.setup.drop_field("Account", "Sign__c")
    org.setup.change_type("Account", "Industry", {"type": "multipicklist"})
    note()
    watched.commit(lambda work: work.undelete("Account", ids[2]))
    note()
    watched.commit(lambda work: work.clear_field("Account", "Health_Score__c"))
    note()
    org.setup.add_object(object_definition(PARCEL, "test"))
    org.populate({"Parcel__c": 3, "Account": 2})
    watched.commit(lambda work: work.hard_delete("Account", ids[3]))
    note()
    for commit_number, state in states.items():
        assert org.state_at(commit_number) == state
        assert org.records_at("Account", commit_number) == state["Account"]
    assert "Parcel__c" not in org.state_at(0)
    assert "Code__c" not in org.definitions_at(0)["Account"].fields_by_name


def test_an_org_opened_again_reads_its_past_with_the_fields_of_then(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path, clock=ManualClock())
    with org.transaction() as work:
        record_id = work.create("Account", {"Name": "a", "SLASerialNumber__c": "17"})
    first = org.last_commit_number
    org.setup.drop_field("Account", "SLASerialNumber__c")
    with org.transaction() as work:
        work.delete("Account", record_id)
    org.close()
    again = EmulatedOrg(tmp_path, clock=ManualClock())
    assert again.records_at("Account", first)[record_id]["SLASerialNumber__c"] == "17"
    again.close()


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock(), seed=2)


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def test_describe_soql_and_rest_know_a_change_of_fields_at_once(org: EmulatedOrg, client: RestClient) -> None:
    record_id = client.post("/sobjects/Account", {"Name": "a", "SLASerialNumber__c": "5"}).json()["id"]
    answer = client.get("/sobjects/Account/describe")
    org.setup.add_field("Account", "Region__c", {"type": "string"}, values={record_id: "North"})
    org.setup.rename_field("Account", "SLASerialNumber__c", "Serial__c")
    again = client.get("/sobjects/Account/describe", headers={"If-Modified-Since": answer.headers["Last-Modified"]})
    names = [field["name"] for field in again.json()["fields"]]
    assert {"Region__c", "Serial__c"} <= set(names)
    assert "SLASerialNumber__c" not in names
    (record,) = client.query("SELECT Region__c, Serial__c FROM Account").json()["records"]
    assert (record["Region__c"], record["Serial__c"]) == ("North", "5")
    assert client.query("SELECT SLASerialNumber__c FROM Account").json()[0]["errorCode"] == "INVALID_FIELD"
    assert client.get(f"/sobjects/Account/{record_id}").json()["Region__c"] == "North"
    org.setup.add_object(object_definition(PARCEL, "test"))
    assert client.post("/sobjects/Parcel__c", {"Weight__c": 2.5}).status_code == 201
    soql = "SELECT SelectedEntity FROM PlatformEventChannelMember WHERE SelectedEntity = 'Parcel__ChangeEvent'"
    assert client.get("/tooling/query", params={"q": soql}).json()["totalSize"] == 1
