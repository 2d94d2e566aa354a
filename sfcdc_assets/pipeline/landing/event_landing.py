"""Landing events that are no change events: into the channel's own append-only table, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets import clock
from sfcdc_assets.channel_kinds import folder_of
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.landed_keys import LandedKeys
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.land import Landing, LandingReport
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets.typed_events.event_rows import event_rows, missing_columns
from sfcdc_assets.typed_events.typed_event import EventReader, TypedEvent, event_key


class EventLanding(Landing):
    """Lands one channel. An event is known again by its key (see `event_key`), whatever replay id it comes with;
    each stands for itself, so that none waits for a transaction's end."""

    is_in_the_org = False

    def __init__(
        self, warehouse: Warehouse, org: OrgConnection, channel: str, reader: EventReader, run_id: str = ""
    ) -> None:
        super().__init__(warehouse, org, channel, run_id)
        self._reader = reader
        self._keys = LandedKeys()

    def has_table(self) -> bool:
        """See `Landing.has_table`."""
        return EventTable.open(self._warehouse, self._channel) is not None

    def commit(
        self,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        resume: ResumePoint,
        complete: bool,
        report: LandingReport,
    ) -> StreamCheckpoint:
        """See `Landing.commit`."""
        now_ms = clock.now_ms()
        table = self._table()
        self._check_standing(table, before)
        read = [(event, self._reader.read(event)) for event in events]
        keys = [event_key(event, each) for event, each in read]
        is_new = self._keys.unseen(table.table, before.position, keys, now_ms)
        new = [event for (event, _), wanted in zip(read, is_new, strict=True) if wanted]
        typed = [each for (_, each), wanted in zip(read, is_new, strict=True) if wanted]
        if self._widen(table, typed):
            # Another process may have landed events before the columns were added.
            table = self._table()
            self._check_standing(table, before)
        last = before.position + len(new)
        after = replace(before, position=last, complete_position=last, resume=resume, open_from=0)
        rows = event_rows(self._channel, before.position + 1, new, typed, table.table.schema)
        table.commit(rows, after, self._run_id)
        self._keys.note([key for key, wanted in zip(keys, is_new, strict=True) if wanted], last)
        if new:
            report.events[folder_of(self._channel)] += len(new)
        report.complete_through_ms = max(report.complete_through_ms, now_ms if complete else 0)
        return after

    def resume_point(self, taken: ResumePoint, known: ResumePoint, events: Sequence[DeliveredEvent]) -> ResumePoint:
        """After the last event, at once: each of these events has a replay id of its own, its position in the stream
        (Platform Events guide and Streaming API guide, "Event Message Durability")."""
        replay_id = taken.open_id or taken.replay_id
        moments = [taken.known_at_ms, events[-1].received_at_ms if events else None]
        if replay_id == known.replay_id:
            moments.append(known.known_at_ms)
        return ResumePoint(replay_id, max((each for each in moments if each is not None), default=None))

    def is_made_after(self, event: DeliveredEvent, moment_ms: int) -> bool:
        """See `Landing.is_made_after`."""
        try:
            made = self._reader.read(event).created_ms
        except SfcdcError:
            return False  # a schema that the org does not give out now: landing says so
        return made is not None and made >= moment_ms

    def _table(self) -> EventTable:
        return EventTable.open_or_create(self._warehouse, self._channel, self._reader.own_columns)

    def _widen(self, table: EventTable, typed: Sequence[TypedEvent]) -> bool:
        """Add the columns that the events need, in a commit of its own; whether there were any."""
        own = [field for field in self._reader.own_columns if field.name not in table.table.schema.names]
        missing = [*own, *missing_columns(table.table.schema, typed)]
        table.table.add_columns(missing)
        return bool(missing)
