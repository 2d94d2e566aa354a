"""Reading a PushTopic by its own query: the records that match it now, typed like its notifications."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from sfcdc_assets.channel_kinds import own_name
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.event_readers import push_topic_reader
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.push_topics.known_record import BEFORE_ALL, Known, Stamp
from sfcdc_assets.push_topics.org_topics import org_topics
from sfcdc_assets.push_topics.state_rows import CARRIED, ID, columns_of, field_columns, is_compound, stamp_of_event
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.typed_events.event_rows import event_rows, missing_columns

_ROWS_AT_ONCE = 2_000
_NEAR = 100_000
"""Notifications that are looked at for the newest one: they come nearly in the order of their createdDate."""


class TopicMissing(SfcdcError):
    """A channel of the settings whose topic the org does not have."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        super().__init__(
            f"{channel}: the org has no PushTopic {own_name(channel)}. Correct SFCDC_CHANNELS (names are "
            "case-sensitive), or create the topic: `sfcdc topics apply`."
        )


@dataclass(frozen=True)
class TopicRead:
    """What the query found, by record id: as good as any observation (`Known`), with the stamp of the read. `fields`:
    the columns that the values go to."""

    stamp: Stamp
    found: Mapping[str, Known]
    fields: tuple[pa.Field, ...]


def read_topic(
    warehouse: Warehouse, org: OrgConnection, channel: str, now_ms: int, visibility_seconds: float
) -> TopicRead:
    """Ask the org the topic's query. Memory holds the answer.

    The read stands for the notifications that were received `visibility_seconds` before it: REST may show the org as
    it was before later ones, which therefore stay on top of it (guarantee 8). Raises `TopicMissing`,
    `TopicsNotReadable`, `QueryRefused`.
    """
    known = org_topics(org.session, own_name(channel))
    if not known:
        raise TopicMissing(channel)
    events = EventTable.open_or_create(warehouse, channel, push_topic_reader(org, channel).own_columns)
    stamp = _newest(events, channel, now_ms - int(visibility_seconds * 1000)).read_after(now_ms)
    found: dict[str, Known] = {}
    fields: dict[str, pa.Field] = {}
    for rows, schema in _typed_rows(org, channel, known[0].topic.query, events.table.schema):
        names = [field.name for field in field_columns(schema) if not is_compound(field)]
        fields |= {name: schema.field(name) for name in names}
        for row in rows:
            values = {name: row[name] for name in columns_of(row[CARRIED], names) if name != ID}
            found[row[ID]] = Known.of_read(stamp, values)
    return TopicRead(stamp, found, tuple(fields.values()))


def _typed_rows(
    org: OrgConnection, channel: str, soql: str, schema: pa.Schema
) -> Iterator[tuple[list[dict[str, Any]], pa.Schema]]:
    """The answer's rows as rows of the table of events would be, part by part, with that table's schema: wider, where
    the query selects what no notification had yet."""
    reader = push_topic_reader(org, channel)
    rows = query_rows(org.session, soql)
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        messages = [json.dumps({"event": {"type": "read"}, "sobject": row}).encode() for row in part]
        events = [DeliveredEvent("", "", message, b"", 0) for message in messages]
        typed = [reader.read(event) for event in events]
        schema = pa.schema([*schema, *missing_columns(schema, typed)])
        yield event_rows(channel, 0, events, typed, schema).to_pylist(), schema


def _newest(events: EventTable, channel: str, received_until_ms: int) -> Stamp:
    """The stamp of the newest notification that was received until then; before all where there is none."""
    since = events.given_out(channel) - _NEAR
    until = datetime.fromtimestamp(received_until_ms / 1000, UTC).isoformat()
    condition = f"position > {since} and event_type is not null and received_at <= timestamp '{until}'"
    rows = events.table.scan(["created_date", "replay_id", "position"], condition)
    return max(map(stamp_of_event, rows.to_pylist()), default=BEFORE_ALL)
