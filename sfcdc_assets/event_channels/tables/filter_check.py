"""Comparing what is known of a PushTopic's records with the topic's own query.

A record that leaves the WHERE clause raises no notification, and neither do changes that the topic does not look at, or
that were made while its checkpoint was lost: without this, such rows would be stale for ever. The check marks what left
and takes over what differs; `verify` only says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from sfcdc_assets.event_channels.event_rows import event_rows, missing_columns
from sfcdc_assets.event_channels.push_topics.known_record import BEFORE_ALL, KnownRecord, Stamp, Standing
from sfcdc_assets.event_channels.push_topics.org_topics import org_topics
from sfcdc_assets.event_channels.push_topics.state_rows import (
    CARRIED,
    ID,
    columns_of,
    field_columns,
    is_compound,
    stamp_of_event,
)
from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.tables.audits import Audit, note_audit
from sfcdc_assets.lake.tables.erasure_receipts import erased_records
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.event_readers import push_topic_reader
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_reads.compare import Difference
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.settings.channel_kinds import folder_of, own_name
from sfcdc_assets.streams.delivered_event import DeliveredEvent

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
    """What the query found, by record id: as good as any observation (`KnownRecord`), with the stamp of the read.
    `fields`: the columns that the values go to."""

    stamp: Stamp
    found: Mapping[str, KnownRecord]
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
    own_columns = push_topic_reader(org, channel).own_columns
    events = EventTable.open_or_create(warehouse, channel, own_columns)
    # Who looked for the channel's place before its first notification has made the table without them.
    begun = pa.unify_schemas([events.table.schema, own_columns])
    stamp = _newest(events, channel, now_ms - int(visibility_seconds * 1000)).read_after(now_ms)
    found: dict[str, KnownRecord] = {}
    fields: dict[str, pa.Field] = {}
    erased = erased_records(warehouse)
    for rows, schema in _typed_rows(org, channel, known[0].topic.query, begun):
        names = [field.name for field in field_columns(schema) if not is_compound(field)]
        fields |= {name: schema.field(name) for name in names}
        for row in rows:
            if erased.keeps_out(row[ID]):
                continue
            values = {name: row[name] for name in columns_of(row[CARRIED], names) if name != ID}
            found[row[ID]] = KnownRecord.of_read(stamp, values)
    return TopicRead(stamp, found, tuple(fields.values()))


def _typed_rows(
    org: OrgConnection, channel: str, soql: str, schema: pa.Schema
) -> Iterator[tuple[list[dict[str, Any]], pa.Schema]]:
    """Yield the answer's rows as rows of the table of events would be, part by part, with that table's schema: wider,
    where the query selects what no notification had yet."""
    reader = push_topic_reader(org, channel)
    rows = query_rows(org.session, soql)
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        messages = [json.dumps({"event": {"type": "read"}, "sobject": row}).encode() for row in part]
        events = [DeliveredEvent("", "", message, b"", 0) for message in messages]
        typed = [reader.read(event) for event in events]
        schema = pa.schema([*schema, *missing_columns(schema, typed)])
        yield event_rows(channel, 0, events, typed, schema).to_pylist(), schema


def _newest(events: EventTable, channel: str, received_until_ms: int) -> Stamp:
    """Return the stamp of the newest notification that was received until then; before all where there is none."""
    since = events.last_position(channel) - _NEAR
    until = literal_time(utc(received_until_ms))
    condition = f"position > {since} and event_type is not null and received_at <= {until}"
    rows = events.table.scan(["created_date", "replay_id", "position"], condition)
    return max(map(stamp_of_event, rows.to_pylist()), default=BEFORE_ALL)


DIFFERENCES_KEPT = 1_000
LEFT = "the topic's query does not find it any more"


class Lands(Protocol):
    """Whoever lands what a channel brings."""

    def land(self, channel: str) -> object:
        """Land all that has come."""


@dataclass(frozen=True)
class TopicReport:
    """What a comparison found. `in_org`: records that the query finds; `in_table`: rows that are neither deleted nor
    marked as left, before the comparison. Of the rest: `left` the query does not find any more; `returned` it finds
    although they were marked as left or deleted; `added` have no row; `changed` have other values; `in_motion` were
    notified too shortly before the read to be judged. `differences`: of all but the last, the first ones."""

    topic: str
    channel: str
    position: int
    in_org: int = 0
    in_table: int = 0
    left: int = 0
    returned: int = 0
    added: int = 0
    changed: int = 0
    in_motion: int = 0
    requests: int = 0
    differences: tuple[Difference, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether the table knows what the query finds."""
        return not (self.left or self.returned or self.added or self.changed)


def check_topic(
    warehouse: Warehouse, org: OrgConnection, lander: Lands, channel: str, visibility_seconds: float
) -> TopicReport:
    """Bring the state to what the query finds; rows of records that it does not find are marked as left, and
    the comparison is noted in `audits`. Raises what `read_topic` and the lander raise."""
    calls, began = org.session.calls, clock.now()
    read = _read(warehouse, org, lander, channel, visibility_seconds)
    report = _take_over(warehouse, channel, read)
    found = report.left + report.returned + report.added + report.changed
    note_audit(warehouse, Audit(channel, channel, report.position, began, report.in_org, report.in_table, found, 1, 0))
    return replace(report, requests=org.session.calls - calls)


def verify_topic(
    warehouse: Warehouse, org: OrgConnection, lander: Lands, channel: str, visibility_seconds: float
) -> TopicReport:
    """Compare as `verify_topics` does; nothing is changed by it but what has landed. Raises as `check_topic` does."""
    calls = org.session.calls
    read = _read(warehouse, org, lander, channel, visibility_seconds)
    report, _ = _compared(_state(warehouse, channel, read), channel, read)
    return replace(report, requests=org.session.calls - calls)


def _read(
    warehouse: Warehouse, org: OrgConnection, lander: Lands, channel: str, visibility_seconds: float
) -> TopicRead:
    """Read between two landings: what changes meanwhile is notified, and then on top of the read."""
    lander.land(channel)
    read = read_topic(warehouse, org, channel, clock.now_ms(), visibility_seconds)
    lander.land(channel)
    fold_topic(warehouse, channel)
    return read


@retry_on_conflict
def _take_over(warehouse: Warehouse, channel: str, read: TopicRead) -> TopicReport:
    state = _state(warehouse, channel, read)
    report, changed = _compared(state, channel, read)
    if changed:
        state.commit(changed, channel, state.applied(channel))
    return report


def _state(warehouse: Warehouse, channel: str, read: TopicRead) -> PushTopicState:
    return PushTopicState.open_or_create(warehouse, folder_of(channel), read.fields)


def _compared(state: PushTopicState, channel: str, read: TopicRead) -> tuple[TopicReport, dict[str, KnownRecord]]:
    """Return what a read says beside the rows, and the records whose rows it changes, as they are known with it."""
    topic = folder_of(channel)
    counts = dict.fromkeys(("in_table", "left", "returned", "added", "changed", "in_motion"), 0)
    changed: dict[str, KnownRecord] = {}
    differences: list[Difference] = []
    unmet = dict(read.found)
    for part in state.batches():
        for record_id, known in part.items():
            observed = unmet.pop(record_id, None)
            counts["in_table"] += known.standing[1] is Standing.THERE
            counts["in_motion"] += known.standing[0] > read.stamp
            kind = _difference(known, observed or KnownRecord.of_absence(read.stamp))
            if kind is not None:
                joined = known.joined(observed or KnownRecord.of_absence(read.stamp))
                counts[kind] += 1
                changed[record_id] = joined
                differences += _described(topic, record_id, kind, known, joined)
    for record_id, observed in unmet.items():
        counts["added"] += 1
        changed[record_id] = observed
        differences.append(
            Difference(topic, record_id, None, None, None, "the topic's query finds it, the table does not know it")
        )
    first = tuple(differences[:DIFFERENCES_KEPT])
    report = TopicReport(topic, channel, state.applied(channel), len(read.found), **counts, differences=first)
    return report, changed


def _difference(known: KnownRecord, observed: KnownRecord) -> str | None:
    """Return how what is known with an observation differs from what was known without it, if it does."""
    joined = known.joined(observed)
    before, after = known.standing[1], joined.standing[1]
    if after is Standing.LEFT:
        return "left" if before is Standing.THERE else None
    if before is not after:
        return "returned"
    return "changed" if joined.plain_values() != known.plain_values() else None


def _described(topic: str, record_id: str, kind: str, known: KnownRecord, joined: KnownRecord) -> Iterator[Difference]:
    difference = partial(Difference, topic, record_id)
    if kind == "left":
        yield difference(None, None, None, LEFT)
    elif kind == "returned":
        yield difference(None, None, None, f"{known.standing[1]} in the table, and the query finds it")
    else:
        before, after = known.plain_values(), joined.plain_values()
        for name in sorted(after):
            if before.get(name) != after[name]:
                yield difference(name, str(after[name]), str(before.get(name)))
