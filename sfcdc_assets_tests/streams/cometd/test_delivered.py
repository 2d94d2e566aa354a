"""From a data message to an event as landing knows it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from sfcdc_assets.streams.cometd.errors import EventWithoutReplayId
from sfcdc_assets.streams.cometd.subscription import delivered_event, delivered_events

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


WITHOUT_A_PLACE: list[dict[str, Any]] = [
    *(message(**event) for event in ({}, *({"replayId": each} for each in (None, True, "", [1], 1.5, -1, "-2")))),
    *({"channel": "/data/ChangeEvents", "data": data} for data in ("text", None, [1])),
    {"channel": "/data/ChangeEvents"},
]


@pytest.mark.parametrize("sent", WITHOUT_A_PLACE)
def test_an_event_without_a_place_is_refused_where_no_place_is_known(sent: dict[str, Any]) -> None:
    with pytest.raises(EventWithoutReplayId, match="/data/ChangeEvents"):
        delivered_events([sent], b"", 0)


@pytest.mark.parametrize("sent", WITHOUT_A_PLACE)
def test_an_event_without_a_place_shares_that_of_the_next_one_or_of_the_last(sent: dict[str, Any]) -> None:
    first, last = message(replayId=7), message(replayId=9)
    ids = [event.replay_id for event in delivered_events([sent, first, sent, sent, last, sent], b"5", 0)]
    assert ids == [b"7", b"7", b"9", b"9", b"9", b"9"]
    assert [event.replay_id for event in delivered_events([sent], b"5", 0)] == [b"5"]
