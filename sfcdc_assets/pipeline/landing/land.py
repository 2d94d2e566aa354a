"""Landing: what a channel's subscription brought goes into `raw_events`, at once and once.

The events, the checkpoint and the point to resume from are one commit. Whoever reads a channel (a sensor's tick, a run
that a person launched, `sfcdc sync`) lands with this; two that read the same channel meet only here, where the second
finds that the checkpoint has moved and starts again from there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets import clock
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS, StreamCheckpoint, land
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.gap_reconciliation import ENTITY, Ledger
from sfcdc_assets.lake.quarantine import quarantine, settle_quarantine
from sfcdc_assets.lake.raw_events import NAME, RawEvents
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.schemas import EventSchema, Schemas
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.observation import EventsLanded, notify
from sfcdc_assets.pipeline.landing.lost_checkpoint import entities_of_channel
from sfcdc_assets.pipeline.landing.read_again import not_landed_before
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.channel_members import entity_of_change_event
from sfcdc_assets.state.doubt import Doubt, NewDoubt
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.errors import SchemaNotFound
from sfcdc_assets.streams.resume import ResumePoint

COMMIT_EVENTS = 10_000
COMMIT_BYTES = 16 * 1024 * 1024
"""Events, and bytes of their payloads, gathered before a commit while more are coming: what a transaction of any size
costs in memory. An event may have up to 1 MB."""

CLOCKS_DIFFER_MS = 10_000
"""How far the org's clock may be from ours, at most."""


@dataclass
class LandingReport:
    """What a reading of a channel brought: events by entity, how many were quarantined, and the checkpoint after it."""

    channel: str
    events: Counter[str] = field(default_factory=Counter)
    quarantined: int = 0
    position: int = 0
    complete_position: int = 0
    complete_through_ms: int = 0
    """All that the org committed before this (epoch ms, UTC) is landed, at or before `complete_position`."""
    has_checkpoint: bool = False
    """False while a start at LATEST has not shown where it was: nothing can have its watermark to the channel yet."""
    has_answered: bool = True
    """Whether the stream was heard of since its call was begun: without an answer nothing is known of what it holds."""
    lost_checkpoint: str | None = None
    """Why the channel's checkpoint was lost, if it was: its entities are read again."""

    @property
    def count(self) -> int:
        """Events landed, those in quarantine included."""
        return sum(self.events.values()) + self.quarantined

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction landed is known to be whole."""
        return self.position == self.complete_position


class Landing:
    """Lands one channel of an org into a warehouse."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, channel: str) -> None:
        self._warehouse = warehouse
        self._org = org
        self._channel = channel
        self._schemas = Schemas(warehouse)

    def checkpoint(self) -> tuple[StreamCheckpoint, int | None]:
        """How far the channel was landed, by anybody, and when its checkpoint was last moved (epoch ms, UTC)."""
        raw_events = RawEvents.open(self._warehouse)
        return raw_events.checkpoint(self._channel), raw_events.landed_at_ms(self._channel)

    @retry_on_conflict
    def upgrade(self) -> None:
        """Keep what an older release noted of the channel in today's form."""
        RawEvents.open(self._warehouse).upgrade(self._channel)

    def position(self) -> int:
        """The last position given out, by anybody; quicker to ask for than the whole checkpoint."""
        return RawEvents.open(self._warehouse).given_out(self._channel)

    def commit(
        self,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        resume: ResumePoint,
        complete: bool,
        report: LandingReport,
    ) -> StreamCheckpoint:
        """Land `events` on top of `before`; returns the checkpoint after them.

        Raises `ConcurrentCommit` when the channel's checkpoint is not `before` any more: then nothing was landed.
        """
        raw_events = RawEvents.open(self._warehouse)
        position, begun = raw_events.stands_at(self._channel)
        if (position, begun) != (before.position, before.begun):
            raise ConcurrentCommit(NAME, f"{self._channel} was landed up to position {position} meanwhile")
        # Another reader may have seen the end of the last transaction already.
        seen = raw_events.complete_position(self._channel)
        before = replace(before, complete_position=max(before.complete_position, seen))
        events = not_landed_before(raw_events, before, events)
        self._know([event.schema_id for event in events])
        parsed: dict[str, Mapping[str, Any] | None] = {}

        def schema_of(schema_id: str) -> Mapping[str, Any] | None:
            if schema_id not in parsed:
                schema = self._schemas.get(schema_id)
                parsed[schema_id] = json.loads(schema.schema_json) if schema else None
            return parsed[schema_id]

        landed = land(before, events, schema_of, resume=resume, complete=complete)
        report.quarantined += self._quarantine(landed.quarantined)
        raw_events.commit(landed.rows, landed.checkpoint)
        settle_quarantine(self._warehouse, raw_events, self._channel)
        notify(EventsLanded(self._channel, landed.rows.num_rows + landed.quarantined.num_rows))
        for counted in pc.value_counts(landed.rows["entity_name"]).to_pylist():
            report.events[counted["values"]] += counted["counts"]
        whole = landed.rows.filter(pc.field("position") <= landed.checkpoint.complete_position)
        if whole.num_rows:
            last = pc.max(whole["commit_timestamp"]).as_py()
            through = int(last.timestamp() * 1000) - CLOCKS_DIFFER_MS
            report.complete_through_ms = max(report.complete_through_ms, through)
        return landed.checkpoint

    def begin(self, checkpoint: StreamCheckpoint, begun: str, transport: str) -> StreamCheckpoint:
        """Note where a channel without a checkpoint is begun, before anything is read: a read of the org may have its
        watermark to an empty channel that is read from its earliest event on."""
        raw_events = RawEvents.open(self._warehouse)
        if raw_events.checkpoint(self._channel) != checkpoint:
            raise ConcurrentCommit(NAME, f"{self._channel} was begun by another process")
        noted = replace(checkpoint, begun=begun, begun_at_ms=clock.now_ms(), transport=transport)
        raw_events.commit(RAW_EVENTS.empty_table(), noted)
        return noted

    def _quarantine(self, rows: pa.Table) -> int:
        """Keep events without a readable header, and doubt what they may have spoken of.

        Their schema tells the entity, nothing tells the record; without a known schema it may be any entity of the
        channel. An entity whose rows rest on another channel is not concerned. One that was never copied is, where the
        schema tells it: its first snapshot may have its watermark before this event, which was received just now. The
        doubts are opened before the channel's checkpoint moves on. The payload is not kept where columns of the entity
        are private: no table but `raw_events` may have them, and that one needs a header.
        """
        resting = entities_of_channel(self._warehouse, self._channel) if rows.num_rows else ()
        payloads = rows["payload"].to_pylist()
        for number, row in enumerate(rows.select(["position", "schema_id", "error"]).to_pylist()):
            schema = self._schemas.get(row["schema_id"])
            if self._org.privacy.concerns(schema.entity_name if schema else None):
                payloads[number] = None
            entities = [entity for entity in resting if schema is None or entity == schema.entity_name]
            if schema is not None and not self._is_copied(schema.entity_name):
                entities = [schema.entity_name]
            doubt = NewDoubt(ENTITY, Doubt.UNDECODABLE_PAYLOAD, row["position"], row["error"])
            for entity in entities:
                ledger = Ledger.open_or_create(self._warehouse, entity)
                ledger.note([doubt], self._channel, row["position"], clock.now_ms())
        column = rows.schema.get_field_index("payload")
        kept = rows.set_column(column, rows.schema.field(column), pa.array(payloads, pa.binary()))
        return quarantine(self._warehouse, kept, self._channel)

    def _is_copied(self, entity: str) -> bool:
        taken = Snapshots.open(self._warehouse, entity)
        return taken is not None and taken.complete() is not None

    def _know(self, schema_ids: Sequence[str]) -> None:
        """Fetch the schemas of events the first time their ids are seen, and describe an entity again when its schema
        changed, also back to one it had before (a field that was added and dropped).

        A schema that the org does not give out stays unknown: its events keep their bytes and are in doubt until it is.
        An event that names none has none to be asked for.
        """
        latest: dict[str, EventSchema] = {}
        for schema_id in filter(None, dict.fromkeys(schema_ids)):
            self._fetch(schema_id)
            schema = self._schemas.get(schema_id)
            if schema is not None:
                latest[schema.entity_name] = schema
        for entity, schema in latest.items():
            if self._schemas.of_entity(entity)[-1].schema_id != schema.schema_id:
                described = self._org.describe_json(entity)
                self._schemas.add(replace(schema, first_seen_at=clock.now_ms(), describe_json=described))

    def _fetch(self, schema_id: str) -> None:
        if self._schemas.get(schema_id) is not None:
            return
        try:
            schema_json = self._org.transport.schema(schema_id)
        except SchemaNotFound:
            return
        entity = entity_of_change_event(json.loads(schema_json)["name"])
        self._schemas.add(EventSchema(schema_id, schema_json, entity, clock.now_ms(), self._org.describe_json(entity)))


def is_enough(waiting: Sequence[DeliveredEvent], payload_bytes: int) -> bool:
    """Whether to commit now although more events are coming."""
    return len(waiting) >= COMMIT_EVENTS or payload_bytes >= COMMIT_BYTES
