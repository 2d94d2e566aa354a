"""Landing change events: into `raw_events`, by the headers that their payloads begin with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets import clock
from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.payload_form import header_of_payload
from sfcdc_assets.change_events.raw_event_rows import land
from sfcdc_assets.lake.gap_reconciliation import ENTITY, Ledger
from sfcdc_assets.lake.quarantine import quarantine, settle_quarantine
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import EventSchema, Schemas
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.land import Landing, LandingReport
from sfcdc_assets.pipeline.landing.lost_checkpoint import entities_of_channel
from sfcdc_assets.pipeline.landing.read_again import not_landed_before
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.channel_members import entity_of_change_event
from sfcdc_assets.side_by_side import side_by_side
from sfcdc_assets.state.doubt import Doubt, NewDoubt
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

CLOCKS_DIFFER_MS = 10_000
"""How far the org's clock may be from ours, at most."""
SCHEMAS_OF_A_COMMIT = 100
DESCRIBES_AT_ONCE = 8


class ChangeEventLanding(Landing):
    """Lands one channel of change events."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, channel: str, run_id: str = "") -> None:
        super().__init__(warehouse, org, channel, run_id)
        self._schemas = Schemas(warehouse)

    def commit(
        self,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        resume: ResumePoint,
        complete: bool,
        report: LandingReport,
    ) -> StreamCheckpoint:
        """See `Landing.commit`."""
        raw_events = RawEvents.open(self._warehouse)
        self._check_standing(raw_events, before)
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
        raw_events.commit(landed.rows, landed.checkpoint, self._run_id)
        settle_quarantine(self._warehouse, raw_events, self._channel)
        counted = landed.rows.group_by("entity_name").aggregate([("position", "count"), ("commit_timestamp", "min")])
        for row in counted.to_pylist():
            entity, oldest = row["entity_name"], row["commit_timestamp_min"]
            report.events[entity] += row["position_count"]
            report.oldest[entity] = min(oldest, report.oldest.get(entity, oldest))
        whole = landed.rows.filter(pc.field("position") <= landed.checkpoint.complete_position)
        if whole.num_rows:
            last = pc.max(whole["commit_timestamp"]).as_py()
            through = int(last.timestamp() * 1000) - CLOCKS_DIFFER_MS
            report.complete_through_ms = max(report.complete_through_ms, through)
        return landed.checkpoint

    def is_made_after(self, event: DeliveredEvent, moment_ms: int) -> bool:
        """See `Landing.is_made_after`."""
        try:
            return header_of_payload(event.payload).commit_timestamp >= moment_ms
        except HeaderError:
            return False

    def _quarantine(self, rows: pa.Table) -> int:
        """Keep events without a readable header, and doubt what they may have spoken of.

        Their schema names the entity, nothing names the record; without a known schema it may be any entity of the
        channel. An entity whose rows rest on another channel is not concerned. One that was never copied is, where the
        schema names it: its first snapshot may have its watermark before this event, which was received just now. The
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

        A channel may name hundreds of entities at once, and a tick has no more than a minute. So many schemas are asked
        for at a time and those of a hundred are one commit, so that whoever is interrupted goes on from there; and an
        entity that was never heard of is not described here: the snapshot that it needs does that.

        A schema that the org does not give out stays unknown: its events keep their bytes and are in doubt until it is.
        An event that names none has none to be asked for.
        """
        named = list(filter(None, dict.fromkeys(schema_ids)))
        if any(self._schemas.get(schema_id) is None for schema_id in named):
            self._schemas = Schemas(self._warehouse)  # a run that copied the entity may know it by now
        unknown = [schema_id for schema_id in named if self._schemas.get(schema_id) is None]
        for start in range(0, len(unknown), SCHEMAS_OF_A_COMMIT):
            texts = self._org.transport.schemas(unknown[start : start + SCHEMAS_OF_A_COMMIT])
            fetched = [_event_schema(schema_id, text) for schema_id, text in texts.items()]
            changed = [schema for schema in fetched if self._schemas.of_entity(schema.entity_name)]
            described = {schema.schema_id: schema for schema in self._described(changed)}
            self._schemas.add(*(described.get(schema.schema_id, schema) for schema in fetched))
        latest: dict[str, EventSchema] = {}
        for schema_id in named:
            schema = self._schemas.get(schema_id)
            if schema is not None:
                latest[schema.entity_name] = schema
        is_back = [each for each in latest.values() if self._schemas.of_entity(each.entity_name)[-1] != each]
        self._schemas.add(*self._described(is_back))

    def _described(self, schemas: Sequence[EventSchema]) -> Iterator[EventSchema]:
        """The same as seen now, each with what describe says."""
        found = side_by_side(self._org.describe_json, [each.entity_name for each in schemas], DESCRIBES_AT_ONCE)
        for schema, describe_json in zip(schemas, found, strict=True):
            if isinstance(describe_json, Exception):
                raise describe_json
            yield replace(schema, first_seen_at=clock.now_ms(), describe_json=describe_json)


def _event_schema(schema_id: str, schema_json: str) -> EventSchema:
    """One that was not described yet."""
    entity = entity_of_change_event(json.loads(schema_json)["name"])
    return EventSchema(schema_id, schema_json, entity, clock.now_ms(), None)
