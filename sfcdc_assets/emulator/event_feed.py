"""The org's change events as a person reads them: decoded, each once, while they come.

Watching is no subscription: nothing is metered, no permission hides anything, and no fault strikes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from sfcdc_assets.emulator.cometd.event_json import writer_of
from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.event_store import EVERYWHERE, OWN_TOPIC, StoredEvent
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.transaction import Transaction

_ONCE = (EVERYWHERE, OWN_TOPIC)
"""Channels on which every event is exactly once; custom ones have copies."""
_PAGE_BYTES = 3_000_000


@dataclass(frozen=True)
class FeedEvent:
    """One event. `payload` has its fields under their names, ChangeEventHeader first; `unreadable` alone if it is not
    Avro of its schema."""

    number: int
    replay_id: str
    """Hexadecimal."""
    event_id: str
    entity: str
    schema_id: str
    payload: Mapping[str, Any]

    @property
    def header(self) -> Mapping[str, Any]:
        """The ChangeEventHeader; empty if it cannot be read."""
        return self.payload.get("ChangeEventHeader", {})

    @property
    def fields(self) -> dict[str, Any]:
        """The body: what the event carries beside its header."""
        return {name: value for name, value in self.payload.items() if name != "ChangeEventHeader"}

    def names(self, record_id: str) -> bool:
        """Whether the event is about a record: by its id, or by a wildcard such as `001*`."""
        ids = self.header.get("recordIds", ())
        return any(each == record_id or (each[3:] == "*" and each[:3] == record_id[:3]) for each in ids)


@dataclass(frozen=True)
class FeedPage:
    """Events oldest first, and the number to read on after."""

    events: tuple[FeedEvent, ...]
    next_after: int
    skipped: int = 0
    """Events between the number that was asked for and the first one here."""


class EventFeed:
    """Reads the bus, and wakes who waits for what the org commits next. `stop` ends all waiting at once."""

    def __init__(self, org: EmulatedOrg, bus: EventBus) -> None:
        self._org = org
        self._bus = bus
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._stopped = False
        self.watched = threading.Event()
        """Whether somebody waits, or has waited, for what comes next."""
        org.subscribe_commits(self._committed)

    def start(self) -> None:
        """Let who comes wait."""
        self._stopped = False

    def stop(self) -> None:
        """Nobody waits any more, until the next start."""
        self._stopped = True
        self._wake()

    def newest(self, most: int, entity: str = "") -> FeedPage:
        """The newest `most` events, of one object or of all."""
        return self.after(self._bus.before_newest(self._entities(entity), most, _ONCE), most, entity)

    def after(
        self,
        number: int,
        most: int,
        entity: str = "",
        *,
        only_newest: bool = False,
        channels: Collection[str] = _ONCE,
    ) -> FeedPage:
        """The first `most` events after a number, or with `only_newest` the last, if there are more. `channels`: a
        custom one, instead of those on which each event is once."""
        entities, start, skipped = self._entities(entity), number, 0
        with self._org.database.lock:
            if only_newest:
                start = max(number, self._bus.before_newest(entities, most, channels))
                skipped = self._bus.lag(entities, number, channels) - self._bus.lag(entities, start, channels)
            batch = self._bus.read(entities, after=start, max_events=most, max_bytes=_PAGE_BYTES, channels=channels)
            events = tuple(self._decoded(each) for each in batch.events)
        return FeedPage(events, batch.through, skipped)

    async def wait_after(
        self, number: int, most: int, entity: str = "", *, seconds: float, only_newest: bool = False
    ) -> FeedPage:
        """`after`, as soon as there is something, or an empty page after so many seconds."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        deadline = loop.time() + seconds
        with self._lock:
            self._waiting.add((loop, came))
        self.watched.set()
        try:
            while True:
                came.clear()
                # A commit wakes while it holds the org's lock, so this reads what it committed, and not too early.
                page = await run_in_threadpool(self.after, number, most, entity, only_newest=only_newest)
                number = page.next_after
                left = deadline - loop.time()
                if page.events or left <= 0 or self._stopped:
                    return page
                with suppress(TimeoutError):
                    await asyncio.wait_for(came.wait(), left)
        finally:
            with self._lock:
                self._waiting.discard((loop, came))

    def _entities(self, entity: str) -> Collection[str]:
        return (entity,) if entity else tuple(self._org.definitions)

    def _committed(self, transaction: Transaction) -> None:
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for loop, came in waiting:
            with suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(came.set)

    def _decoded(self, event: StoredEvent) -> FeedEvent:
        payload = writer_of(self._bus.schema_json(event.schema_id) or "{}").payload(event.payload)
        return FeedEvent(event.number, event.replay_id.hex(), event.event_id, event.entity, event.schema_id, payload)
