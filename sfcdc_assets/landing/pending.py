"""What a reader of a channel was sent and has not landed yet: in memory, and after a failure beside the tables too.

A failure of ours that lasts must not be paid for by the org's allowance of deliveries, which all its subscribers share.
So a reader that is begun again, in this process or another, finds here what was sent to the one before.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from sfcdc_assets.lake.store.pending_events import PendingEvents, note_pending, path_of, read_pending, remove_pending
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.streams.checkpoint import StreamCheckpoint, not_landed_yet
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets.streams.transport import Received

log = logging.getLogger(__name__)

READINGS = 3
"""So many readings of a channel in a row may end with their process; each may have been sent the same events."""
DAY_MS = 24 * 3_600_000
_REASON_KEPT = 500
_BESIDE_PAYLOAD = 300
"""Bytes of an event beside its payload, at most."""


class ReadingsCutShort(SfcdcError):
    """Processes that read the channel ended, one after another, before what they were sent was landed."""

    def __init__(self, channel: str, readings: int, hours: float, note: str) -> None:
        self.channel, self.readings = channel, readings
        super().__init__(
            f"{channel}: {readings} processes in a row ended while they landed what they had been sent, which was "
            f"charged to the org each time. Nothing is asked for within the next {hours:.0f} h. Find out what ended "
            f"them (often the memory of the machine or container), then remove {note} to try at once."
        )


class Pending:
    """`events` were sent next after what is landed, `payload_bytes` in all; `resume`: where the stream goes on after
    them. `complete`: it follows from the service's silence that none belongs to the last transaction that has
    not come; all that the org committed before `through_ms` (epoch ms, UTC) is among them then."""

    def __init__(self, warehouse: Warehouse, channel: str) -> None:
        self._warehouse, self._channel = warehouse, channel
        self._has_note = False
        self._readings = self._needed = 0
        self.clear()

    def clear(self) -> None:
        """Forget them; what is noted beside the tables stays."""
        self.events: list[DeliveredEvent] = []
        self.payload_bytes = 0
        self.resume = ResumePoint()
        self.complete = False
        self.through_ms = 0
        self._kept = 0
        self._uncounted: PendingEvents | None = None
        """The note of a reading that was sent nothing yet."""

    def place(self, checkpoint: StreamCheckpoint) -> None:
        """Go on with what an earlier reading noted and nobody has landed since. Raises `ReadingsCutShort`."""
        self.clear()
        note = read_pending(self._warehouse, self._channel)
        self._has_note = note is not None
        self._readings = self._needed = 0
        if note is None:
            return
        left = not_landed_yet(note.events, note.before, checkpoint)
        if left:
            self.events, self.resume, self.complete = list(left), note.resume, note.complete
            self._kept = len(self.events)
        elif not note.events and note.before.position == checkpoint.position:
            self._readings, self._needed = note.readings, note.needed
            if note.is_of_another:
                self._readings = max(0, self._readings - 1)  # nothing ended
                return
            waits_ms = note.noted_at_ms + DAY_MS - clock.now_ms()
            if note.readings >= READINGS and waits_ms > 0:
                path = self._warehouse.uri(path_of(self._channel))
                raise ReadingsCutShort(self._channel, note.readings, waits_ms / 3_600_000, path)

    def begin(self, checkpoint: StreamCheckpoint) -> None:
        """Note that events will be asked for. Raises what `note_pending` raises: who cannot be written to would be
        sent them in vain."""
        now_ms = clock.now_ms()
        note = PendingEvents(checkpoint, readings=self._readings, noted_at_ms=now_ms, needed=self._needed)
        note_pending(self._warehouse, self._channel, note, reserves=True)
        self._has_note, self._uncounted = True, note

    def add(self, received: Received) -> None:
        """Add the next response. The first that has events is noted: a process that ends before was sent nothing."""
        uncounted = self._uncounted
        if received.events and uncounted is not None:
            self._uncounted = None
            with suppress(SfcdcError):  # who cannot be written to has that raised by the landing
                counted = replace(uncounted, readings=uncounted.readings + 1, noted_at_ms=clock.now_ms())
                note_pending(self._warehouse, self._channel, counted)
        self.events.extend(received.events)
        self.payload_bytes += sum(len(event.payload) for event in received.events)
        if received.events:
            self.complete, self.through_ms = False, 0

    def is_complete(self, through_ms: int) -> None:
        """All that the org committed before a moment has come."""
        self.complete, self.through_ms = True, max(self.through_ms, through_ms)

    def keep(self, before: StreamCheckpoint, error: BaseException) -> None:
        """Note them beside the tables, because they could not be landed on top of `before`. If that fails too, they
        are in memory alone, and who reads the channel after this process is sent them once the warehouse has room for
        as much."""
        if not self.events or self._kept == len(self.events):
            return
        reason = (str(error) or type(error).__name__)[:_REASON_KEPT]
        note = PendingEvents(before, tuple(self.events), self.resume, self.complete, 1, clock.now_ms(), reason)
        try:
            note_pending(self._warehouse, self._channel, note)
        except SfcdcError as refused:
            log.warning("%s: %d events are kept in memory alone: %s", self._channel, len(self.events), refused)
            needed = self.payload_bytes + _BESIDE_PAYLOAD * len(self.events)
            with suppress(SfcdcError):
                note_pending(self._warehouse, self._channel, PendingEvents(before, readings=0, needed=needed))
                self._has_note = True
        else:
            self._kept, self._has_note = len(self.events), True

    def landed(self) -> None:
        """All are landed: neither they nor a note of them is needed any more."""
        self.clear()
        self._readings = self._needed = 0
        if self._has_note:
            with suppress(SfcdcError):  # the next one that is landed removes it
                remove_pending(self._warehouse, self._channel)
                self._has_note = False
