"""Platform events of the emulated org are defined as data, and have schemas and descriptions like a real org's."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets.emulator.errors import ObjectDefinitionError
from sfcdc_assets.emulator.events.avro.event_schema import schema_id, schema_json
from sfcdc_assets.emulator.events.platform_events.event_codec import platform_event_schema
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.platform_event_client import ORDER, EventClient


def test_a_definition_gives_the_schema_that_a_real_org_gave() -> None:
    """`Order_Event__e` of a real org, whose GetSchema answered `_CADE3qaegX3ECEW0rlbYA` (docs/salesforce-streams.md,
    "Topics and schemas")."""
    definition = event_definition(
        {
            "name": ORDER,
            "label": "Order Event",
            "key_prefix": "e01",
            "fields": [
                {"Order_Number__c": {"type": "string"}},
                {"City__c": {"type": "string"}},
                {"Amount__c": {"type": "double"}},
            ],
        }
    )
    schema = platform_event_schema(definition)
    assert schema_id(schema) == "_CADE3qaegX3ECEW0rlbYA"
    assert schema_json(schema).startswith('{"type":"record","name":"Order_Event__e","namespace":"com.sforce.eventbus"')
    fields = schema["fields"]
    assert isinstance(fields, list)
    assert [field["doc"].split(":")[:2] for field in fields] == [
        ["CreatedDate", "DateTime"], ["CreatedBy", "EntityId"], ["Data", "Text"], ["Data", "Text"], ["Data", "Double"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "Order__c"}, "no name of a platform event"),
        ({"name": "Order"}, "no name of a platform event"),
        ({"key_prefix": "a01"}, "key_prefix"),
        ({"publish": "later"}, "publish must be"),
        ({"fields": [{"Note": {"type": "string"}}]}, "__c"),
        ({"fields": [{"Where__c": {"type": "location"}}]}, "a type is one of"),
        ({"fields": [{"A__c": {"type": "string"}}, {"a__c": {"type": "string"}}]}, "twice"),
    ],
)
def test_a_definition_that_is_wrong_is_refused_with_what_is_wrong(change: dict[str, object], reason: str) -> None:
    document = {"name": "Order__e", "label": "Order", "key_prefix": "e02", "fields": [], **change}
    with pytest.raises(ObjectDefinitionError, match=reason):
        event_definition(document)


def test_a_field_that_is_added_gives_the_next_event_another_schema_and_events_before_keep_theirs(
    client: EventClient,
) -> None:
    client.rest.post(
        "//emulator/platform-events",
        {"name": "Note__e", "label": "Note", "key_prefix": "e05", "fields": [{"Text__c": {"type": "string"}}]},
    ).raise_for_status()
    start = client.place()
    client.post_event("Note__e", Text__c="one").raise_for_status()
    client.rest.post("//emulator/platform-events/Note__e/fields", {"name": "Size__c", "type": "double"})
    client.post_event("Note__e", Text__c="two", Size__c=2).raise_for_status()
    client.rest.send("DELETE", "//emulator/platform-events/Note__e/fields/Text__c").raise_for_status()
    client.post_event("Note__e", Size__c=3).raise_for_status()
    events = client.received(3, "/event/Note__e", start)
    bodies = [client.decoded(event) for event in events]
    assert [sorted(body.keys() - {"CreatedDate", "CreatedById"}) for body in bodies] == [
        ["Text__c"], ["Size__c", "Text__c"], ["Size__c"],
    ]  # fmt: skip
    assert len({event.event.schema_id for event in events}) == 3
    assert client.topic("/event/Note__e").schema_id == events[-1].event.schema_id


def test_definitions_are_kept_with_the_org(tmp_path) -> None:
    definition = event_definition({"name": "Mine__e", "label": "Mine", "key_prefix": "e09", "fields": []})
    org = EmulatedOrg(tmp_path, platform_events=[definition])
    org.platform_events.add_field("Mine__e", "A__c", {"type": "date"})
    org.close()
    again = EmulatedOrg(tmp_path)
    assert list(again.platform_events.all) == ["Mine__e"]
    assert [field.name for field in again.platform_events.all["Mine__e"].custom_fields] == ["A__c"]
    again.close()


def test_describe_lists_it_as_something_that_can_only_be_created(client: EventClient) -> None:
    listed = {each["name"]: each for each in client.rest.get("/sobjects").json()["sobjects"]}
    assert {"Order_Event__e", "Low_Ink__e"} <= listed.keys()
    described = client.rest.get(f"/sobjects/{ORDER}/describe").json()
    assert (described["createable"], described["queryable"], described["updateable"]) == (True, False, False)
    assert [field["name"] for field in described["fields"]][:4] == [
        "ReplayId", "CreatedDate", "CreatedById", "Order_Number__c",
    ]  # fmt: skip
    client.org.hidden_objects.add(ORDER)
    assert client.rest.get(f"/sobjects/{ORDER}/describe").status_code == 404


def test_its_schema_is_there_by_name_and_by_id_in_both_forms(client: EventClient) -> None:
    compact = client.rest.get(f"/sobjects/{ORDER}/eventSchema?payloadFormat=COMPACT").json()
    assert compact["uuid"] == client.topic().schema_id
    assert client.rest.get(f"/event/eventSchema/{compact['uuid']}?payloadFormat=COMPACT").json() == compact
    assert compact["fields"] == client.schema(compact["uuid"])["fields"]
    expanded = client.rest.get(f"/sobjects/{ORDER}/eventSchema").json()
    assert expanded["type"] == "expanded-record"
    data = {each["name"]: each["type"] for each in expanded["fields"][0]["type"]["fields"]}
    types = {each["name"]: each["type"] for each in data["payload"]["fields"]}
    assert (types["CreatedDate"], types["Ordered_At__c"], types["Amount__c"]) == (
        "string", ["null", "string"], ["null", "double"],
    )  # fmt: skip
