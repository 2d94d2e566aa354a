"""Which object a topic was of decides on its notifications while the org does not describe it."""

from __future__ import annotations

import json

import pytest

from sfcdc_assets.change_events.privacy import FieldPattern, Privacy
from sfcdc_assets.event_channels.push_topic_event import PushTopicReader
from sfcdc_assets.event_channels.typed_event import NotKnownYet, read_event
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.streams.delivered_event import DeliveredEvent

ACCOUNT = ObjectDescription.from_json({"name": "Account", "keyPrefix": "001", "fields": []})
OF_CONTACTS = Privacy(excluded=(FieldPattern("Contact", "Name"),))


def reader() -> PushTopicReader:
    """Of a topic that was about accounts."""

    def away() -> ObjectDescription | None:
        raise NotKnownYet("/topic/Energetic", "the object of the topic")

    return PushTopicReader(away, OF_CONTACTS, ACCOUNT)


def notification(record_id: str) -> DeliveredEvent:
    message = {"event": {"type": "updated"}, "sobject": {"Id": record_id, "Name": "Edda"}}
    return DeliveredEvent("", "", json.dumps(message).encode(), b"1", 0)


def test_rules_of_another_object_let_the_bytes_be_kept() -> None:
    assert read_event(reader(), notification("001000000000001AAA")).waits


def test_a_topic_that_is_of_another_object_now_is_not_taken_for_one_of_the_object_that_it_was_of() -> None:
    with pytest.raises(NotKnownYet):
        read_event(reader(), notification("003000000000001AAA"))


@pytest.mark.parametrize("given", ["Phone", "phone"])
def test_a_topic_whose_object_the_org_does_not_say_has_the_rules_of_all_objects(given: str) -> None:
    rules = Privacy(excluded=(FieldPattern("Account", "Phone"),))
    message = {"event": {"type": "updated"}, "sobject": {"Id": "001000000000001AAA", given: "+49", "Name": "Edda"}}
    event = DeliveredEvent("", "", json.dumps(message).encode(), b"1", 0)
    read = read_event(PushTopicReader(lambda: None, rules), event)
    assert "+49" not in str(read.values) + str(read.rescued)
    assert not read.keeps_bytes
