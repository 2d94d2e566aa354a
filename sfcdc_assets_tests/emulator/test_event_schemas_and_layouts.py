"""`eventSchema` by name and by id, in both forms; descriptions of layouts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastavro import parse_schema

from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.events.avro.event_schema import event_fields, schema_id
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.topic import find_topic
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture(scope="module")
def bus() -> EventBus:
    return EventBus(EmulatedOrg(clock=ManualClock()))


@pytest.fixture(scope="module")
def client(bus: EventBus) -> Iterator[RestClient]:
    with rest_client(bus._org, schemas=bus) as client:
        yield client


@pytest.mark.parametrize("event", ["AccountChangeEvent", "Invoice_Statement__ChangeEvent", "userchangeevent"])
def test_the_compact_form_is_the_schema_of_the_pubsub_api(bus: EventBus, client: RestClient, event: str) -> None:
    by_name = client.get(f"/sobjects/{event}/eventSchema", params={"payloadFormat": "COMPACT"}).json()
    assert parse_schema({name: by_name[name] for name in by_name if name != "uuid"})
    assert schema_id(by_name) == by_name["uuid"]
    by_id = client.get(f"/event/eventSchema/{by_name['uuid']}", params={"payloadFormat": "compact"}).json()
    assert by_id == by_name


def test_the_expanded_form_is_that_of_json_messages(client: RestClient) -> None:
    schema = client.get("/sobjects/AccountChangeEvent/eventSchema").json()
    assert (schema["type"], schema["name"]) == ("expanded-record", "AccountChangeEvent")
    data, channel = schema["fields"]
    assert channel == {"name": "channel", "type": "string"}
    assert [each["name"] for each in data["type"]["fields"]] == ["schema", "payload", "event"]
    fields = {each["name"]: each["type"] for each in data["type"]["fields"][1]["type"]["fields"]}
    assert fields["CreatedDate"] == ["null", "string"]
    assert fields["AnnualRevenue"] == ["null", "double"]
    assert "nulledFields" not in [each["name"] for each in fields["ChangeEventHeader"]["fields"]]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/sobjects/NopeChangeEvent/eventSchema", 404),
        ("/event/eventSchema/nope", 404),
        ("/sobjects/AccountChangeEvent/eventSchema?payloadFormat=XML", 400),
    ],
)
def test_there_is_no_schema_of_what_is_no_event(client: RestClient, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def test_layouts_show_each_field_once(client: RestClient) -> None:
    answer = client.get("/sobjects/Account/describe/layouts").json()
    (mapping,) = answer["recordTypeMappings"]
    assert client.get(f"/sobjects/Account/describe/layouts/{mapping['recordTypeId']}").json() == answer["layouts"][0]
    rows = answer["layouts"][0]["detailLayoutSections"][0]["layoutRows"]
    names = [row["layoutItems"][0]["layoutComponents"][0]["value"] for row in rows]
    assert "Name" in names
    assert len(names) == len(set(names))
    assert client.get("/sobjects/Account/describe/compactLayouts").json()["compactLayouts"][0]["name"] == "SYSTEM"
    assert client.get("/recent").json() == []


@pytest.mark.parametrize("entity", ["Attachment", "AccountHistory", "Contract"])
def test_an_object_without_change_events_has_no_schema_and_no_topic(entity: str) -> None:
    org = EmulatedOrg(objects=whole_org(), clock=ManualClock())
    bus = EventBus(org)
    with rest_client(org, schemas=bus) as client:
        found = client.get(f"/sobjects/{entity}ChangeEvent/eventSchema")
    assert (found.status_code, found.json()[0]["errorCode"]) == (404, "NOT_FOUND")
    assert find_topic(org, f"/data/{entity}ChangeEvent") is None


def test_events_carry_no_files() -> None:
    document = {
        "name": "Scan__c",
        "label": "Scan",
        "key_prefix": "a0S",
        "fields": [{"Name": {"type": "string"}}, {"Body__c": {"type": "base64"}}],
    }
    assert "Body__c" not in {each.name for each in event_fields(object_definition(document, "Scan__c"))}
