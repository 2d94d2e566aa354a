"""From a data message to an event as landing knows it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from sfcdc_assets.streams.cometd.errors import EventWithoutReplayId
from sfcdc_assets.streams.cometd.subscription import delivered_event

PAYLOAD = {"Name": "Zürich", "ChangeEventHeader": {"entityName": "Account", "recordIds": ["1"]}, "Amount__c": 1.5}


def message(payload: Any = PAYLOAD, **event: Any) -> dict[str, Any]:
    return {"channel": "/data/ChangeEvents", "data": {"schema": "s", "payload": payload, "event": event}}


def test_an_event_has_the_services_ids_and_its_payload_with_names_in_order() -> None:
    found = delivered_event(message(replayId=899, EventUuid="e1"), 7)
    assert (found.event_id, found.schema_id, found.replay_id, found.received_at_ms) == ("e1", "s", b"899", 7)
    assert json.loads(found.payload) == PAYLOAD
    assert found.payload.startswith(b'{"Amount__c"')


def test_an_event_that_comes_again_in_another_order_is_the_same() -> None:
    dice, marks = Random(1), set()
    for _ in range(5):
        fields = list(PAYLOAD.items())
        dice.shuffle(fields)
        marks.add(delivered_event(message(dict(fields), replayId=1), 0).mark)
    assert len(marks) == 1


def test_an_event_without_an_id_of_its_own_gets_one_from_its_contents() -> None:
    first, copy = (delivered_event(message(replayId=number), 0) for number in (1, 2))
    other = delivered_event(message({**PAYLOAD, "Name": "Bonn"}, replayId=1), 0)
    assert first.event_id == copy.event_id != other.event_id


@pytest.mark.parametrize("event", [{}, {"replayId": None}, {"replayId": True}, {"replayId": ""}, {"replayId": [1]}])
def test_an_event_without_a_place_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(EventWithoutReplayId, match="/data/ChangeEvents"):
        delivered_event(message(**event), 0)


@pytest.mark.parametrize("data", ["text", None, [1]])
def test_a_message_of_another_kind_is_refused(data: object) -> None:
    with pytest.raises(EventWithoutReplayId):
        delivered_event({"channel": "/data/ChangeEvents", "data": data}, 0)
