"""What a sync is at, from what its work reports: how fast events land, and each entity's state."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import (
    BatchApplied,
    EventsDelivered,
    EventsLanded,
    Fact,
    PageStored,
    RequestSent,
    SnapshotBegun,
    SnapshotsWanted,
    StreamAwaited,
    WorkFound,
)
from sfcdc_assets.runtime.times import duration_text, utc

RATE_SECONDS = 20.0
"""Over which the rate of arriving events is taken."""
ENTITIES_SHOWN = 12
"""On a terminal; those that are worked on come first."""


class State(Enum):
    """Where an entity is; in the order in which a person wants to see them."""

    READING = 0
    """Pages of its snapshot come."""
    PREPARED = 1
    """The org prepares its snapshot."""
    WAITING = 2
    """Its turn has not come."""
    READ = 3
    """Its snapshot is complete."""
    DONE = 4
    """Its tables are up to date."""


@dataclass
class EntityProgress:
    """One entity: where it is, the rows of its snapshot, the records that changed."""

    entity: str
    state: State = State.WAITING
    rows: int = 0
    rows_expected: int | None = None
    first_rows: int = 0
    first_page_at: float = 0.0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    healed: int = 0
    batches: int = 0
    snapshots: int = 0
    lag_seconds: float | None = None

    @property
    def changed(self) -> int:
        """Records inserted, updated or deleted in its table."""
        return self.inserted + self.updated + self.deleted

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds left of its snapshot, at the rate of the pages since the first; None while that is not
        known."""
        read, took = self.rows - self.first_rows, now - self.first_page_at
        if self.rows_expected is None or read <= 0 or took <= 0:
            return None
        return max(0, self.rows_expected - self.rows) * took / read


class SyncProgress:
    """An observer: adds up what is reported, and puts it into words. Called from any thread."""

    def __init__(self) -> None:
        self._monotonic = clock.current().monotonic
        self._lock = threading.Lock()
        self._arrived: deque[tuple[float, int]] = deque()
        self.began = self._monotonic()
        self.delivered = self.repeats = 0
        self.landed = 0
        self.requests = 0
        self._awaited: dict[str, StreamAwaited] = {}
        """By channel."""
        self.entities: dict[str, EntityProgress] = {}

    def __call__(self, fact: Fact) -> None:
        """Take note of a fact."""
        with self._lock:
            self._note(fact, self._monotonic())

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._monotonic() - self.began

    def lines(self) -> list[str]:
        """Write the progress for a terminal: all that is known, a line for each entity at work."""
        with self._lock:
            now = self._monotonic()
            shown = sorted(self.entities.values(), key=lambda each: each.state.value)
            width = max((len(each.entity) for each in shown[:ENTITIES_SHOWN]), default=0)
            entities = [f"  {each.entity:<{width}}  {_words(each, now)}" for each in shown[:ENTITIES_SHOWN]]
            rest = shown[ENTITIES_SHOWN:]
            more = [f"  and {len(rest)} more, {_done(rest)} of them done"] if rest else []
            waiting = [f"  {waiting_line(each)}" for each in self._awaited.values()]
            return [self._totals(now), *waiting, *entities, *more]

    def line(self) -> str:
        """Write the progress for a log: the totals, and the snapshots that are being read."""
        with self._lock:
            now = self._monotonic()
            of_entities = self.entities.values()
            reading = [f"{each.entity}: {_words(each, now)}" for each in of_entities if each.state == State.READING]
            done = [f"{_done(of_entities)} of {counted(len(of_entities), 'entity')} done"] if of_entities else []
            return "; ".join([self._totals(now), *done, *reading])

    def _note(self, fact: Fact, now: float) -> None:
        match fact:
            case EventsDelivered(_, events, repeats):
                self.delivered += events
                self.repeats += repeats
                self._arrived.append((now, events))
            case StreamAwaited(channel, what):
                self._awaited.pop(channel, None)
                if what is not None:
                    self._awaited[channel] = fact
            case EventsLanded(_, events):
                self.landed += events
            case RequestSent():
                self.requests += 1
            case SnapshotsWanted(names) | WorkFound(names):
                for name in names:
                    self._of(name).state = State.WAITING
            case SnapshotBegun(name):
                found = self._of(name)
                found.state, found.rows, found.rows_expected, found.first_page_at = State.PREPARED, 0, None, 0.0
            case PageStored(name, rows, expected, is_last):
                found = self._of(name)
                if not found.first_page_at:
                    found.first_rows, found.first_page_at = rows, now
                found.state, found.rows, found.rows_expected = State.READING, rows, expected
                if is_last:
                    found.state = State.READ
                    found.snapshots += 1
            case BatchApplied(name, inserted, updated, deleted, lag, healed):
                found = self._of(name)
                found.state = State.DONE
                found.inserted, found.updated = found.inserted + inserted, found.updated + updated
                found.deleted, found.batches = found.deleted + deleted, found.batches + 1
                found.healed += healed
                found.lag_seconds = found.lag_seconds if lag is None else lag

    def _of(self, entity: str) -> EntityProgress:
        return self.entities.setdefault(entity, EntityProgress(entity))

    def _totals(self, now: float) -> str:
        while self._arrived and self._arrived[0][0] < now - RATE_SECONDS:
            self._arrived.popleft()
        seconds = min(RATE_SECONDS, now - self.began)
        rate = sum(events for _, events in self._arrived) / seconds if seconds >= 1 else 0.0
        speed = f" ({rate:,.0f} a second)" if rate >= 1 else ""
        landed = f"{counted(self.landed, 'event')} landed{speed}"
        return f"{landed}, {counted(self.requests, 'API request')}, {duration_text(now - self.began)}"


def waiting_line(awaited: StreamAwaited) -> str | None:
    """`/topic/Quiet: waits for the stream's first answer, until 14:03:20 at the latest.` None when it waits no more."""
    if awaited.what is None:
        return None
    until = utc(awaited.until_ms).astimezone()
    return f"{awaited.channel}: waits for {awaited.what}, until {until:%H:%M:%S} at the latest."


def _words(each: EntityProgress, now: float) -> str:
    if each.state is State.WAITING:
        return "waits"
    if each.state is State.PREPARED:
        return "the org prepares the snapshot"
    if each.state is State.READ:
        return f"snapshot: {counted(each.rows, 'row')} read"
    if each.state is State.DONE:
        return f"up to date, {counted(each.changed, 'record')} changed"
    left = each.seconds_left(now)
    expected = each.rows_expected
    rows = counted(each.rows, "row") if expected is None else f"{each.rows:,} of {counted(expected, 'row')}"
    return f"snapshot: {rows} read{f', {duration_text(left)} left' if left is not None else ''}"


def _done(entities: Iterable[EntityProgress]) -> int:
    return sum(each.state is State.DONE for each in entities)
