"""Landing: what a channel delivers goes into `raw_events`, at once and once.

The sensor, a run's `raw_events` step, a snapshot's pin and `sfcdc sync` all land with this one function.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.header import HeaderError, read_header
from sfcdc_assets.change_events.landing import StreamPlace, hold_back_last_replay_id, land
from sfcdc_assets.lake.decide_anew import decide_anew
from sfcdc_assets.lake.gap_reconciliation import ENTITY, Ledger
from sfcdc_assets.lake.quarantine import quarantine
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import EventSchema, Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.lost_place import entities_of_channel, lose_place
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.organization import follow_instance
from sfcdc_assets.pubsub.errors import ReplayIdRefused, SchemaNotFound
from sfcdc_assets.pubsub.replay import ReplayStart
from sfcdc_assets.pubsub.subscription import DeliveredEvent, deliveries
from sfcdc_assets.salesforce.channel_members import entity_of_change_event
from sfcdc_assets.state.doubt import Doubt

SETTLE_SECONDS = 2.0
"""Silence that counts as the stream's tip."""

POLL_SECONDS = 20.0
"""The most a sensor's tick reads: its evaluation is ended from outside after 60 s."""

DRAIN_SECONDS = 600.0
"""The most a run reads before it goes on with what it has."""

COMMIT_EVENTS = 10_000
COMMIT_BYTES = 16 * 1024 * 1024
"""Events, and bytes of their payloads, gathered before a commit while more are coming: what a transaction of any size
costs in memory. An event may have up to 1 MB."""

KEEPALIVE_SECONDS = 300.0
"""A stream without events sends a keepalive at least every 270 s (facts section 2)."""

LEAST_ALLOWANCE = 0.2
"""Share of the day's delivered events that must be left for a start at EARLIEST, which brings up to three days' events
at once and whose cost all subscribers of the org share."""

IDLE_COMMIT_SECONDS = 900
"""A resume point that only moved (no events) is committed this seldom: ids are good for 72 hours."""


@dataclass
class LandingReport:
    """What a poll brought: events by entity, how many were quarantined, the place after it, and whether the stream's
    tip was reached."""

    channel: str
    events: Counter[str] = field(default_factory=Counter)
    quarantined: int = 0
    position: int = 0
    complete_position: int = 0
    at_tip: bool = False
    has_place: bool = False
    """False while a start at LATEST has not shown where it was: nothing can be pinned to the channel yet."""
    lost_place: str | None = None
    """Why the channel's place was lost, if it was: its entities are read again."""

    @property
    def count(self) -> int:
        """Events landed, those in quarantine included."""
        return sum(self.events.values()) + self.quarantined


class Lander:
    """Lands channels of one org into one warehouse."""

    def __init__(
        self, warehouse: Warehouse, org: Org, *, clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    ) -> None:
        self._warehouse = warehouse
        self._org = org
        self._clock_ms = clock_ms

    @decide_anew
    def land(self, channel: str, *, settle: float, budget: float, stop_after: int | None = None) -> LandingReport:
        """Land from the durable place to the stream's tip, or until `budget` seconds or `stop_after` events are over.

        The tip is `settle` seconds of silence or a keepalive. On a stream that never rests, reading ends with the first
        event that was committed after it began. A place that the org refuses, or that is another instance's, is lost:
        see `lost_place`. When another process lands the same channel at the same time, one of the two commits and the
        other starts again from there.
        """
        raw_events = RawEvents.open(self._warehouse)
        place = raw_events.place(channel)
        lost = follow_instance(self._warehouse, raw_events, channel, self._org, self._clock_ms())
        if lost is not None:
            place = raw_events.place(channel)
        try:
            report = self._read(raw_events, place, settle, budget, stop_after)
        except ReplayIdRefused as refused:
            if place.replay_id is None:
                raise
            lost, now = str(refused), self._org.session.organization_id
            place = lose_place(self._warehouse, raw_events, raw_events.place(channel), lost, now, self._clock_ms())
            report = self._read(raw_events, place, settle, budget, stop_after)
        report.lost_place = lost
        return report

    def _read(
        self, raw_events: RawEvents, place: StreamPlace, settle: float, budget: float, stop_after: int | None
    ) -> LandingReport:
        schemas = Schemas(self._warehouse)
        report = LandingReport(place.channel, position=place.position, complete_position=place.complete_position)
        start = ReplayStart.after(place.replay_id) if place.replay_id is not None else self._first_start()
        if start == ReplayStart.LATEST:
            # Only a keepalive tells where LATEST was; until then silence is not a place.
            settle = max(settle, KEEPALIVE_SECONDS)
        waiting: list[DeliveredEvent] = []
        began = self._clock_ms()

        def committed_after_we_began(event: DeliveredEvent) -> bool:
            # Only a rule for when to stop: whatever the clocks say, the next reading goes on from here.
            try:
                return read_header(event.payload).commit_timestamp >= began
            except HeaderError:
                return False

        reading = deliveries(
            self._org.pubsub,
            place.channel,
            start,
            settle=settle,
            budget=budget,
            stop_after=stop_after,
            stop_at=committed_after_we_began,
            wall_clock=lambda: self._clock_ms() / 1000,
        )
        with contextlib.closing(reading):
            for delivery in reading:
                waiting.extend(delivery.events)
                if _is_enough(waiting) or delivery.at_tip:
                    tip = delivery.latest_replay_id
                    waiting = self._commit(raw_events, schemas, report, waiting, delivery.at_tip, tip)
        if waiting:
            self._commit(raw_events, schemas, report, waiting, False, None)
        report.has_place = start == ReplayStart.EARLIEST or raw_events.place(place.channel).replay_id is not None
        return report

    def _first_start(self) -> ReplayStart:
        """Where a channel without a place is begun: at EARLIEST, so that nothing retained is missed, unless the org's
        allowance of delivered events is nearly used up; then at LATEST, and what lies before it is read from the org
        by the snapshots, which are pinned after it."""
        allowance = self._org.delivery_allowance()
        if allowance is not None and allowance.remaining < allowance.maximum * LEAST_ALLOWANCE:
            return ReplayStart.LATEST
        return ReplayStart.EARLIEST

    def _commit(
        self,
        raw_events: RawEvents,
        schemas: Schemas,
        report: LandingReport,
        waiting: list[DeliveredEvent],
        at_tip: bool,
        tip: bytes | None,
    ) -> list[DeliveredEvent]:
        """Commit what is known to be whole; returns the events held back."""
        whole, held = (waiting, []) if at_tip else hold_back_last_replay_id(waiting)
        place = raw_events.place(report.channel)
        self._know(schemas, [event.schema_id for event in whole])
        parsed: dict[str, Mapping[str, Any] | None] = {}

        def schema_of(schema_id: str) -> Mapping[str, Any] | None:
            if schema_id not in parsed:
                schema = schemas.get(schema_id)
                parsed[schema_id] = json.loads(schema.schema_json) if schema else None
            return parsed[schema_id]

        landed = land(place, whole, schema_of, at_tip=at_tip, tip_replay_id=tip)
        moved = landed.place.position > place.position or landed.place.complete_position > place.complete_position
        # The first resume point is kept at once: a channel begun at LATEST would be begun there again, behind a hole.
        resume_moved = landed.place.replay_id != place.replay_id
        if moved or (
            resume_moved and (place.replay_id is None or self._resume_point_is_old(raw_events, report.channel))
        ):
            report.quarantined += self._quarantine(schemas, report.channel, landed.quarantined)
            raw_events.commit(landed.rows, landed.place, self._org.session.organization_id)
            for counted in pc.value_counts(landed.rows["entity_name"]).to_pylist():
                report.events[counted["values"]] += counted["counts"]
        report.position, report.complete_position = landed.place.position, landed.place.complete_position
        report.at_tip = at_tip
        return list(held)

    def _quarantine(self, schemas: Schemas, channel: str, rows: pa.Table) -> int:
        """Keep events without a readable header, and doubt what they may have spoken of.

        Their schema tells the entity, nothing tells the record; without a known schema it may be any entity of the
        channel. An entity whose rows rest on another channel is not concerned, and one that was never copied will be
        copied later than this. The doubts are opened before the channel's place moves on. The payload is not kept where
        columns of the entity are private: no table but `raw_events` may have them, and that one needs a header.
        """
        resting = entities_of_channel(self._warehouse, channel) if rows.num_rows else ()
        payloads = rows["payload"].to_pylist()
        for number, row in enumerate(rows.select(["position", "schema_id", "error"]).to_pylist()):
            schema = schemas.get(row["schema_id"])
            if self._org.privacy.concerns(schema.entity_name if schema else None):
                payloads[number] = None
            entities = [entity for entity in resting if schema is None or entity == schema.entity_name]
            doubt = {
                "record_id": ENTITY,
                "reason": Doubt.UNDECODABLE_PAYLOAD.value,
                "position": row["position"],
                "detail": row["error"],
            }
            for entity in entities:
                ledger = Ledger.open_or_create(self._warehouse, entity)
                ledger.note([doubt], channel, row["position"], self._clock_ms())
        place = rows.schema.get_field_index("payload")
        kept = rows.set_column(place, rows.schema.field(place), pa.array(payloads, pa.binary()))
        return quarantine(self._warehouse, kept, channel)

    def _know(self, schemas: Schemas, schema_ids: Sequence[str]) -> None:
        """Fetch the schemas of events the first time their ids are seen, and describe an entity anew when its schema
        changed, also back to one it had before (a field that was added and dropped).

        A schema that the org does not give out stays unknown: its events keep their bytes and are in doubt until it is.
        """
        latest: dict[str, EventSchema] = {}
        for schema_id in schema_ids:
            self._fetch(schemas, schema_id)
            schema = schemas.get(schema_id)
            if schema is not None:
                latest[schema.entity_name] = schema
        for entity, schema in latest.items():
            if schemas.of_entity(entity)[-1].schema_id != schema.schema_id:
                described = self._org.describe_json(entity)
                schemas.add(replace(schema, first_seen_at=self._clock_ms(), describe_json=described))

    def _fetch(self, schemas: Schemas, schema_id: str) -> None:
        if schemas.get(schema_id) is not None:
            return
        try:
            schema_json = self._org.pubsub.get_schema(schema_id)
        except SchemaNotFound:
            return
        entity = entity_of_change_event(json.loads(schema_json)["name"])
        schemas.add(EventSchema(schema_id, schema_json, entity, self._clock_ms(), self._org.describe_json(entity)))

    def _resume_point_is_old(self, raw_events: RawEvents, channel: str) -> bool:
        last = raw_events.landed_at_ms(channel)
        return last is None or self._clock_ms() - last > IDLE_COMMIT_SECONDS * 1000


def _is_enough(waiting: Sequence[DeliveredEvent]) -> bool:
    return len(waiting) >= COMMIT_EVENTS or sum(len(event.payload) for event in waiting) >= COMMIT_BYTES
