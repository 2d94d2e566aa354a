"""Landing change events: into `raw_events`, by the headers that their payloads begin with."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.event_schema import parse_change_schema
from sfcdc_assets.change_events.payload_form import header_of_payload
from sfcdc_assets.change_events.raw_event_rows import land
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.erasure_receipts import refused_without_a_trace, without_erased
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.lost_checkpoints import entities_of_channel
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.tables.quarantine import quarantine, settle_quarantine
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas, schema_of_id
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import CLOCKS_DIFFER_MS, Landing, LandingReport
from sfcdc_assets.landing.landed_lately import LandedLately
from sfcdc_assets.landing.redelivered_events import LandedBefore
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.salesforce.channel_members import entity_of_change_event
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

log = logging.getLogger(__name__)

SCHEMAS_OF_A_COMMIT = 100


class ChangeEventLanding(Landing):
    """Lands one channel of change events."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, channel: str, run_id: str = "") -> None:
        super().__init__(warehouse, org, channel, run_id)
        self._schemas = Schemas(warehouse, without_damaged=True)
        self._landed_before = LandedBefore(warehouse, channel)
        self._landed_lately = LandedLately()

    def commit(
        self,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        resume: ResumePoint,
        *,
        complete: bool,
        report: LandingReport,
    ) -> StreamCheckpoint:
        """See `Landing.commit`."""
        raw_events = RawEvents.open(self._warehouse)
        self._check_standing(raw_events, before)
        # Another reader may have seen the end of the last transaction already.
        seen = raw_events.complete_position(self._channel)
        before = replace(before, complete_position=max(before.complete_position, seen))
        events = self._landed_before.without(raw_events, before, events, self._schemas_parsed())
        self._know([event.schema_id for event in events])
        lately = partial(self._landed_lately.among, raw_events, before, utc(clock.now_ms()))
        landed = land(before, events, self._schemas_parsed(), resume=resume, complete=complete, landed_before=lately)
        landed = replace(landed, rows=without_erased(self._warehouse, landed.rows))
        report.quarantined += self._quarantine(landed.quarantined)
        with refused_without_a_trace(self._warehouse, raw_events.table.name, "record_ids"):
            raw_events.commit(landed.rows, landed.checkpoint, self._run_id)
        self._landed_before.landed(landed.checkpoint)
        self._landed_lately.landed(landed.rows, landed.checkpoint)
        settle_quarantine(
            self._warehouse, self._channel, raw_events.last_position(self._channel), raw_events.landed_among
        )
        counted = landed.rows.group_by("entity_name").aggregate([("position", "count"), ("commit_timestamp", "min")])
        landed_at = clock.now_ms() / 1000
        for row in counted.to_pylist():
            report.events[row["entity_name"]] += row["position_count"]
            report.waited[row["entity_name"]] = landed_at - row["commit_timestamp_min"].timestamp()
        whole = landed.rows.filter(pc.field("position") <= landed.checkpoint.complete_position)
        if whole.num_rows:
            # A damaged header may name a time that is still to come.
            last = min(pc.max(whole["commit_timestamp"]).as_py(), pc.max(whole["received_at"]).as_py())
            through = epoch_ms(last) - CLOCKS_DIFFER_MS
            report.complete_through_ms = max(report.complete_through_ms, through)
        return landed.checkpoint

    def is_made_after(self, event: DeliveredEvent, moment_ms: int) -> bool:
        """See `Landing.is_made_after`."""
        try:
            return header_of_payload(event.payload).commit_timestamp >= moment_ms
        except HeaderError:
            return False

    def _schemas_parsed(self) -> Callable[[str], Mapping[str, Any] | None]:
        """Return a function from a schema's id to the schema, None where it is not known now."""

        @cache
        def schema_of(schema_id: str) -> Mapping[str, Any] | None:
            schema = self._schemas.get(schema_id)
            return _parsed(schema.schema_json) if schema else None

        return schema_of

    def _quarantine(self, rows: pa.Table) -> int:
        """Keep events without a readable header, and make suspect what they may have spoken of.

        Their schema names the entity, nothing names the record; without a known schema it may be any entity of the
        channel, and where the header names another one it may be either. An entity whose rows rest on another channel
        is not concerned. One that was never copied is, where the schema names it: its first snapshot may have its
        watermark before this event, which was received just now. The entries are opened before the channel's checkpoint
        moves on. The payload is not kept where columns of the entity are private: no table but `raw_events` may have
        them, and that one needs a header.
        """
        resting = entities_of_channel(self._warehouse, self._channel) if rows.num_rows else ()
        payloads = rows["payload"].to_pylist()
        for number, row in enumerate(rows.select(["position", "schema_id", "payload", "error"]).to_pylist()):
            schema = self._schemas.get(row["schema_id"])
            if self._org.privacy.concerns(schema.entity_name if schema else None):
                payloads[number] = None
            named = None if schema is None else _entity_named(row["payload"])
            entities = [entity for entity in resting if schema is None or entity in (schema.entity_name, named)]
            if schema is not None and schema.entity_name not in entities and not self._is_copied(schema.entity_name):
                entities.append(schema.entity_name)
            suspect = NewSuspect(ENTITY, Reason.UNDECODABLE_PAYLOAD, row["position"], row["error"])
            for entity in entities:
                ledger = Ledger.open_or_create(self._warehouse, entity)
                ledger.note([suspect], self._channel, row["position"], clock.now_ms())
        column = rows.schema.get_field_index("payload")
        kept = rows.set_column(column, rows.schema.field(column), pa.array(payloads, pa.binary()))
        return quarantine(self._warehouse, kept, self._channel)

    def _is_copied(self, entity: str) -> bool:
        taken = Snapshots.open(self._warehouse, entity)
        return taken is not None and taken.complete() is not None

    def _know(self, schema_ids: Sequence[str]) -> None:
        """Fetch the schemas of events the first time their ids are seen, and have an entity described again when its
        schema changed, also back to one it had before (a field that was added and dropped).

        A channel may name hundreds of entities at once, and a tick has no more than a minute. So many schemas are asked
        for at a time and those of a hundred are one commit, so that whoever is interrupted goes on from there. No
        object is described here: whoever applies the events does that (`follow_describes`), or the snapshot.

        A schema that cannot be had stays unknown, and is asked for again after a growing pause when an event names it:
        the header of its events is read as that of every change event, and landing goes on. An event that names none
        has none to be asked for.
        """
        named = list(filter(None, dict.fromkeys(schema_ids)))
        if any(self._schemas.get(schema_id) is None for schema_id in named):
            self._schemas = Schemas(
                self._warehouse, without_damaged=True
            )  # a run that copied the entity may know it by now
        now_ms = clock.now_ms()
        unknown = [
            schema_id
            for schema_id in named
            if self._schemas.get(schema_id) is None and self._schemas.is_due(schema_of_id(schema_id), now_ms)
        ]
        for start in range(0, len(unknown), SCHEMAS_OF_A_COMMIT):
            asked = unknown[start : start + SCHEMAS_OF_A_COMMIT]
            texts = outcome_of(self._org.transport.schemas, asked)
            if isinstance(texts, OF_THE_LOGIN):
                raise texts  # what came may be another org's
            if isinstance(texts, Exception):
                log.warning("%s: %d schemas are asked for again later: %s", self._channel, len(asked), texts)
                texts = {}
            read = {schema_id: outcome_of(_event_schema, schema_id, text) for schema_id, text in texts.items()}
            fetched = {schema_id: each for schema_id, each in read.items() if isinstance(each, EventSchema)}
            in_vain = [schema_of_id(schema_id) for schema_id in asked if schema_id not in fetched]
            with suppress(ConcurrentCommit):  # another process has asked for the same
                self._schemas.add(*fetched.values(), in_vain=in_vain, now_ms=clock.now_ms())
        self._describe_again(named)

    def _describe_again(self, named: Sequence[str]) -> None:
        """Have the entities described whose last event names a schema that is not their last one. Schemas may take
        turns for long; then it is done after growing pauses."""
        latest: dict[str, EventSchema] = {}
        for schema_id in named:
            schema = self._schemas.get(schema_id)
            if schema is not None:
                latest[schema.entity_name] = schema
        now_ms = clock.now_ms()
        back = [
            entity
            for entity, schema in latest.items()
            if self._schemas.of_entity(entity)[-1].schema_id != schema.schema_id
            and self._schemas.is_due(_return_of(entity), now_ms)
        ]
        with suppress(ConcurrentCommit):
            self._schemas.add(described=dict.fromkeys(back, 0), in_vain=map(_return_of, back), now_ms=now_ms)


@lru_cache(maxsize=64)
def _parsed(schema_json: str) -> Mapping[str, Any]:
    """Return a schema, which takes a millisecond: commits that follow one another have events of the same ones. Each
    has some 150 kB, so that not those of hundreds of objects are kept."""
    parsed: Mapping[str, Any] = json.loads(schema_json)
    return parsed


def _entity_named(payload: bytes) -> str | None:
    """Return the object that a header names, where it can be read."""
    try:
        return header_of_payload(payload).entity_name
    except HeaderError:
        return None


def _return_of(entity: str) -> str:
    """Return the subject of the pauses after an entity's events named a schema of before."""
    return f"return:{entity}"


def _event_schema(schema_id: str, schema_json: str) -> EventSchema:
    """One that was not described yet. Raises `EventSchemaError`, and `ValueError` for the name, where it is none of a
    change event."""
    entity = entity_of_change_event(str(parse_change_schema(schema_json).get("name")))
    return EventSchema(schema_id, schema_json, entity, clock.now_ms(), None)
