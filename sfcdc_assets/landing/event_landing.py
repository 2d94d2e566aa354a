"""Landing events that are no change events: into the channel's own append-only table, each once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sfcdc_assets.event_channels.event_rows import event_rows, missing_columns
from sfcdc_assets.event_channels.typed_event import EventReader, TypedEvent, event_key, read_event
from sfcdc_assets.lake.erasure.naming_rows import without_erased_events
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landed_table import LandedKeys
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import CLOCKS_DIFFER_MS, Landing, LandingReport
from sfcdc_assets.landing.retry_pause import RetryPause
from sfcdc_assets.landing.retype_events import type_waiting
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of, kind_of
from sfcdc_assets.streams.checkpoint import LATEST, StreamCheckpoint
from sfcdc_assets.streams.delivered_event import KEPT_AT_MOST_MS, DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

PUBLISHERS_CLOCKS_DIFFER_MS = 24 * 3_600_000
"""How far the clock of a publisher, or its idea of a time zone, may be from ours."""


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
        self._keys_untyped_from = 0
        """Where what waits began when the keys were last used: an event that is typed has another key."""
        self._has_met_waiting = self._can_read_again = False
        """Whether events wait to be typed that this reader has landed, and whether those that came next could be
        read."""
        self._may_wait = True
        """Whether events may wait in the table, as far as this reader has seen."""
        self._typing_pause = RetryPause()
        self._schemas = Schemas(warehouse, without_damaged=True)

    def has_table(self) -> bool:
        """See `Landing.has_table`."""
        return EventTable.open(self._warehouse, self._channel) is not None

    def checkpoint(self) -> tuple[StreamCheckpoint, int | None]:
        """See `Landing.checkpoint`. Who asks goes on from what others have landed."""
        self._may_wait = True
        return super().checkpoint()

    def type_waiting(self) -> None:
        """See `Landing.type_waiting`. No table is opened where nothing has landed that may wait."""
        if not self._may_wait or self._typing_pause.left:
            return
        try:
            table = EventTable.open(self._warehouse, self._channel)
            self._may_wait = table is not None and self._waits_still(table)
        except Exception as error:
            self._typing_pause.failed(error)
            raise
        self._typing_pause.worked()

    def commit(
        self,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        resume: ResumePoint,
        *,
        complete: bool,  # noqa: ARG002 - an event is a transaction by itself
        report: LandingReport,
    ) -> StreamCheckpoint:
        """See `Landing.commit`. What waits in the table is left to `type_waiting`: whatever that fails at, these events
        land."""
        now_ms = clock.now_ms()
        table = self._table()
        self._check_standing(table, before)
        read = [(event, read_event(self._reader, event)) for event in events]
        keys = [event_key(event, each) for event, each in read]
        untyped_from = table.untyped_from(self._channel)
        if untyped_from != self._keys_untyped_from:
            self._keys, self._keys_untyped_from = LandedKeys(), untyped_from
        unseen = self._keys.unseen(table.table, before.position, keys, now_ms)
        if untyped_from:
            # An event that waits to be typed is known by its bytes.
            bare = [event_key(event, TypedEvent(identity=event.mark)) for event in events]
            of_bytes = self._keys.unseen(table.table, before.position, bare, now_ms)
            unseen = [wanted and not_there for wanted, not_there in zip(unseen, of_bytes, strict=True)]
        is_new = [
            wanted and not self._is_from_before(before, each) for wanted, (_, each) in zip(unseen, read, strict=True)
        ]
        new = [event for (event, _), wanted in zip(read, is_new, strict=True) if wanted]
        typed = [each for (_, each), wanted in zip(read, is_new, strict=True) if wanted]
        if self._widen(table, typed):
            # Another process may have landed events before the columns were added.
            table = self._table()
            self._check_standing(table, before)
        last = before.position + len(new)
        after = replace(before, position=last, complete_position=last, resume=resume, open_from=0)
        rows = event_rows(self._channel, before.position + 1, new, typed, table.table.schema)
        rows = without_erased_events(self._warehouse, rows)
        waiting = (number for number, each in enumerate(typed, before.position + 1) if each.waits)
        untyped_from = untyped_from or next(waiting, 0)
        table.land(rows, after, self._run_id, untyped_from)
        self._keys_untyped_from = untyped_from
        self._may_wait = self._may_wait or bool(untyped_from)
        if read:
            self._can_read_again = self._has_met_waiting and not any(each.waits for _, each in read)
            self._has_met_waiting = self._has_met_waiting or any(each.waits for each in typed)
        self._keys.note([key for key, wanted in zip(keys, is_new, strict=True) if wanted], last, now_ms)
        if new:
            report.events[folder_of(self._channel)] += len(new)
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
            made = read_event(self._reader, event).created_ms
        except SfcdcError:
            return False  # a schema that the org does not give out now: landing says so
        return made is not None and made >= moment_ms

    def _waits_still(self, table: EventTable) -> bool:
        """Type what waits in the table, after growing pauses or as soon as events can be read again; whether some of it
        waits still."""
        subject, waits = f"typing:{self._channel}", table.untyped_from(self._channel) > 0
        if not waits or not (self._can_read_again or self._schemas.is_due(subject, clock.now_ms())):
            return waits
        waits = type_waiting(self._warehouse, self._channel, self._reader) > 0
        self._has_met_waiting = self._can_read_again = False
        if waits:
            with suppress(ConcurrentCommit):
                # Of what was asked for in vain the pause began before, so that it is over by the next try.
                self._schemas.add(in_vain=[subject], now_ms=clock.now_ms())
        return waits

    def _is_from_before(self, before: StreamCheckpoint, typed: TypedEvent) -> bool:
        """Return whether an event was made before a start at LATEST: it comes only because the stream was begun again
        at its earliest event, for no replay id was known. Where that cannot be told the event is landed.

        The date of a platform event is whatever its publisher wrote, so it counts only if it is clearly one from before
        the start, and one that an event which is still kept can have.
        """
        if before.begun != LATEST or typed.created_ms is None or before.begun_at_ms is None:
            return False
        age_ms = before.begun_at_ms - typed.created_ms
        if kind_of(self._channel) is ChannelKind.PLATFORM_EVENT:
            return PUBLISHERS_CLOCKS_DIFFER_MS < age_ms < KEPT_AT_MOST_MS
        return age_ms > CLOCKS_DIFFER_MS

    def _table(self) -> EventTable:
        return EventTable.open_or_create(self._warehouse, self._channel, self._reader.own_columns)

    def _widen(self, table: EventTable, typed: Sequence[TypedEvent]) -> bool:
        """Add the columns that the events need, in a commit of its own; whether there were any."""
        own = [field for field in self._reader.own_columns if field.name not in table.table.schema.names]
        missing = [*own, *missing_columns(table.table.schema, typed)]
        table.table.add_columns(missing)
        return bool(missing)
