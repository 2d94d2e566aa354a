"""Platform events are published by REST: alone, in collections, beside records, at once or with the commit.

The forms of requests and answers are those of
https://developer.salesforce.com/docs/platform/platform-events/guide/platform-events-publish-api.html.
"""

from __future__ import annotations

import uuid

import pytest

from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets_tests.emulator.platform_event_client import ORDER, EventClient


def test_rest_answers_that_the_event_is_on_its_way_with_its_uuid(client: EventClient) -> None:
    start = client.place()
    answer = client.post_event(Order_Number__c="17", Amount__c=12.345, Shipped_On__c="2026-01-31", Has_Shipped__c=True)
    assert answer.status_code == 201
    body = answer.json()
    assert (body["success"], body["id"][:3], len(body["id"])) == (True, "e01", 18)
    (error,) = body["errors"]
    assert (error["statusCode"], error["fields"]) == ("OPERATION_ENQUEUED", [])
    assert str(uuid.UUID(error["message"])) == error["message"]
    (event,) = client.received(1, after=start)
    assert event.event.id == error["message"]
    assert client.decoded(event) == {
        "CreatedDate": client.clock(),
        "CreatedById": client.org.users.integration,
        "Order_Number__c": "17",
        "City__c": None,
        "Amount__c": 12.35,
        "Has_Shipped__c": True,
        "Shipped_On__c": 1_769_817_600_000,
        "Ordered_At__c": None,
        "Remarks__c": None,
    }


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, "REQUIRED_FIELD_MISSING"),
        ({"Order_Number__c": "1", "Nothing__c": "x"}, "INVALID_FIELD"),
        ({"Order_Number__c": "1", "ReplayId": "5"}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ({"Order_Number__c": "x" * 41}, "STRING_TOO_LONG"),
        ({"Order_Number__c": "1", "Amount__c": "much"}, "JSON_PARSER_ERROR"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_nothing_is_published(
    client: EventClient, values: dict[str, str], code: str
) -> None:
    before = len(client.server.publisher.published())
    answer = client.rest.post(f"/sobjects/{ORDER}", values)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)
    assert len(client.server.publisher.published()) == before


def test_collections_publish_each_event_with_a_result_of_its_own_beside_records(client: EventClient) -> None:
    start = client.place()
    records = [
        {"attributes": {"type": ORDER}, "Order_Number__c": "a"},
        {"attributes": {"type": "Account"}, "Name": "A record"},
        {"attributes": {"type": ORDER}},
        {"attributes": {"type": ORDER}, "Order_Number__c": "b"},
    ]
    results = client.rest.post("/composite/sobjects", {"records": records}).json()
    assert [each["success"] for each in results] == [True, True, False, True]
    assert [[error["statusCode"] for error in each["errors"]] for each in results] == [
        ["OPERATION_ENQUEUED"], [], ["REQUIRED_FIELD_MISSING"], ["OPERATION_ENQUEUED"],
    ]  # fmt: skip
    events = client.received(2, after=start)
    assert [event.event.id for event in events] == [results[n]["errors"][0]["message"] for n in (0, 3)]
    assert "survives" not in results[0]


def test_what_is_published_immediately_survives_a_rollback_and_what_waits_for_the_commit_does_not(
    client: EventClient,
) -> None:
    client.org.platform_events.define(
        event_definition(
            {
                "name": "After__e",
                "label": "After",
                "key_prefix": "e06",
                "publish": "after_commit",
                "fields": [{"Text__c": {"type": "string"}}],
            }
        )
    )
    before, start = len(client.server.publisher.published()), client.place()
    records = [
        {"attributes": {"type": ORDER}, "Order_Number__c": "immediately"},
        {"attributes": {"type": "After__e"}, "Text__c": "never"},
        {"attributes": {"type": "Account"}},
    ]
    results = client.rest.post("/composite/sobjects", {"allOrNone": True, "records": records}).json()
    assert [each["errors"][0]["statusCode"] for each in results] == [
        "OPERATION_ENQUEUED", "ALL_OR_NONE_OPERATION_ROLLED_BACK", "REQUIRED_FIELD_MISSING",
    ]  # fmt: skip
    client.post_event("After__e", Text__c="committed").raise_for_status()
    published = client.server.publisher.published()[before:]
    assert [each.name for each in published] == [ORDER, "After__e"]
    (event,) = client.received(1, "/event/After__e", start)
    assert client.decoded(event)["Text__c"] == "committed"


def test_a_composite_request_publishes_with_the_records_it_makes(client: EventClient) -> None:
    start = client.place()
    url = "/services/data/v59.0/sobjects"
    requests_ = [
        {"method": "POST", "url": f"{url}/Account", "referenceId": "made", "body": {"Name": "Composite"}},
        {"method": "POST", "url": f"{url}/{ORDER}", "referenceId": "told", "body": {"Order_Number__c": "@{made.id}"}},
    ]
    answer = client.rest.post("/composite", {"allOrNone": True, "compositeRequest": requests_}).json()
    assert [each["httpStatusCode"] for each in answer["compositeResponse"]] == [201, 201]
    (event,) = client.received(1, after=start)
    assert client.decoded(event)["Order_Number__c"] == answer["compositeResponse"][0]["body"]["id"]


def test_an_event_can_be_neither_read_nor_changed(client: EventClient) -> None:
    record_id = client.post_event(Order_Number__c="1").json()["id"]
    assert client.rest.get(f"/sobjects/{ORDER}/{record_id}").status_code == 404
    assert client.rest.send("PATCH", f"/sobjects/{ORDER}/{record_id}", json={}).status_code == 404
    assert client.rest.query(f"SELECT CreatedDate FROM {ORDER}").status_code == 400
    assert client.rest.get(f"/sobjects/{ORDER}").json()["objectDescribe"]["name"] == ORDER
