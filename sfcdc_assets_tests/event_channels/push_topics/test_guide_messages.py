"""The guide's own messages about PushTopics, read as the client reads them and folded into what is known (Streaming API
Developer Guide, chapters 1 to 5; underscores that its text lost are put back)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.event_rows import event_rows, missing_columns, table_schema
from sfcdc_assets.event_channels.push_topic_event import PushTopicReader
from sfcdc_assets.event_channels.push_topics.known_record import KnownRecord, Standing, join
from sfcdc_assets.event_channels.push_topics.state_rows import field_columns, known_of_events
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.streams.cometd.errors import EventWithoutReplayId
from sfcdc_assets.streams.cometd.subscription import delivered_event, delivered_events

Message = dict[str, Any]


def described(*names: str) -> ObjectDescription:
    fields = [{"name": name, "type": "id" if name == "Id" else "string"} for name in names]
    return ObjectDescription.from_json({"name": "Any", "fields": fields})


OBJECT = described(
    "Id", "Name", "Website", "Status__c", "Description__c", "test_ds__Status__c", "test_ds__Description__c"
)


def message(channel: str, event: Message, **fields: Any) -> Message:
    return {"clientId": "2t80j2hcog29sdh9ihjd9643a", "channel": channel, "data": {"event": event, "sobject": fields}}


ACCOUNTS, INVOICES = "/topic/TestAccountStreaming", "/topic/InvoiceStatementUpdates"
TICTACTOE = message(
    ACCOUNTS,
    {"createdDate": "2016-03-29T16:40:08.208Z", "replayId": 13, "type": "created"},
    Website=None,
    Id="001D000000KnaXjIAJ",
    Name="TicTacToe",
)
LIGHTNING = [
    message(ACCOUNTS, {"createdDate": f"2017-05-22T20:55:54.{ms}Z", "replayId": number, "type": kind}, **fields)
    for number, (ms, kind, fields) in enumerate(
        [
            ("051", "created", {"Website": None, "Id": "001D000000Ky76NIAR", "Name": "Lightning"}),
            ("421", "updated", {"Website": None, "Id": "001D000000Ky76NIAR", "Name": "Lightning_UPDATED"}),
            ("965", "deleted", {"Id": "001D000000Ky76NIAR"}),
        ],
        4,
    )
]
EMP = [
    message(INVOICES, {"createdDate": made, "replayId": number, "type": kind}, **fields)
    for number, (made, kind, fields) in enumerate(
        [
            (
                "2016-12-12T22:31:48.035Z",
                "created",
                {"Status__c": "Open", "Id": "a070P00000pn0hyQAA", "Name": "INV-0001", "Description__c": "blah"},
            ),
            (
                "2016-12-12T22:32:06.440Z",
                "updated",
                {"Status__c": "Negotiating", "Id": "a070P00000pn0hyQAA", "Name": "INV-0001", "Description__c": "blah"},
            ),
            (
                "2016-12-12T22:32:57.404Z",
                "created",
                {
                    "Status__c": "Open",
                    "Id": "a070P00000pn0lfQAA",
                    "Name": "INV-0002",
                    "Description__c": "Laptops and accessories.",
                },
            ),
        ],
        1,
    )
]
ORDER = [
    message(INVOICES, {"type": kind, "createdDate": made, "replayId": number}, **fields)
    for number, (kind, made, fields) in enumerate(
        [
            (
                "updated",
                "2013-05-10T18:16:19.000+0000",
                {
                    "Name": "INV-0002",
                    "test_ds__Status__c": "Negotiating",
                    "test_ds__Description__c": "Update to invoice statement #2",
                    "Id": "a00D000008pvxcIAA",
                },
            ),
            (
                "created",
                "2013-05-10T18:15:11.000+0000",
                {
                    "Name": "INV-0003",
                    "test_ds__Status__c": "Open",
                    "test_ds__Description__c": "New invoice statement #1",
                    "Id": "a00D000008pvzdIAA",
                },
            ),
        ],
        1,
    )
]
WITHOUT_REPLAY = [
    message(
        INVOICES,
        {"type": "created", "createdDate": "2011-11-14T17:33:45.000+0000"},
        Name="INV-0004",
        Id="a00D000008oLi8IAE",
        Description__c="Test invoice statement",
        Status__c="Open",
    ),
    message(
        INVOICES,
        {"type": "updated", "createdDate": "2011-11-03T15:59:06.000+0000"},
        Name="INV-0001",
        Id="a00D000008o6y8IAA",
        Status__c="Open",
    ),
]


def folded(messages: list[Message]) -> dict[str, KnownRecord]:
    """As landing and folding do it, without a table."""
    reader = PushTopicReader(lambda: OBJECT, Privacy())
    events = [delivered_event(each, 1_700_000_000_000) for each in messages]
    typed = [reader.read(event) for event in events]
    assert [each.problem for each in typed] == [None] * len(messages)
    own = table_schema(PushTopicReader.own_columns)
    schema = pa.schema([*own, *missing_columns(own, typed)])
    rows = event_rows(INVOICES, 1, events, typed, schema).to_pylist()
    return known_of_events(rows, [field.name for field in field_columns(schema)])


def values_of(messages: list[Message]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Record id -> standing and values."""
    return {record_id: (each.standing[1].value, each.plain_values()) for record_id, each in folded(messages).items()}


def test_a_created_account_is_known_with_its_null() -> None:
    assert values_of([TICTACTOE]) == {"001D000000KnaXjIAJ": ("there", {"Name": "TicTacToe", "Website": None})}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_an_account_that_was_created_updated_and_deleted_keeps_its_last_values(order: tuple[int, ...]) -> None:
    found = values_of([LIGHTNING[number] for number in order])
    assert found == {"001D000000Ky76NIAR": ("deleted", {"Name": "Lightning_UPDATED", "Website": None})}


def test_what_the_java_client_prints_are_two_invoices() -> None:
    assert values_of(EMP) == {
        "a070P00000pn0hyQAA": (
            "there",
            {"Description__c": "blah", "Name": "INV-0001", "Status__c": "Negotiating"},
        ),
        "a070P00000pn0lfQAA": (
            "there",
            {"Description__c": "Laptops and accessories.", "Name": "INV-0002", "Status__c": "Open"},
        ),
    }


def test_messages_that_come_in_another_order_than_they_were_made_are_ordered_by_created_date() -> None:
    updated, created = (known for _, known in sorted(folded(ORDER).items()))
    assert created.standing[0] < updated.standing[0]
    assert (updated.notified, created.notified) != (None, None)
    one = [
        {**each, "data": {**each["data"], "sobject": {"Id": "a00D000008pvxcIAA", **fields}}}
        for each, fields in zip(ORDER, ({"Name": "newer"}, {"Name": "older"}), strict=True)
    ]
    assert values_of(one) == {"a00D000008pvxcIAA": ("there", {"Name": "newer"})}


@pytest.mark.parametrize("old", WITHOUT_REPLAY, ids=["chapter 2", "chapter 4"])
def test_messages_from_before_replay_are_refused_loudly(old: Message) -> None:
    """Chapters 2 and 4 show what versions before 37.0 send: such a stream cannot be resumed."""
    with pytest.raises(EventWithoutReplayId):
        delivered_events([old], b"", 0)
    event = {**old["data"]["event"], "replayId": 1}
    (known,) = folded([{**old, "data": {**old["data"], "event": event}}]).values()
    assert known.standing[1] is Standing.THERE
    assert known.plain_values()["Status__c"] == "Open"


def test_a_message_again_changes_nothing() -> None:
    once = folded(EMP)
    assert {record_id: join([known, known]) for record_id, known in once.items()} == once
