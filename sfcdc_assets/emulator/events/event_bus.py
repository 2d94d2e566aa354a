"""The event bus: publishes what the org commits and platform events, and serves both by replay id.

Guarantees: events are in commit order; a transaction's events are stored with its records in one database transaction;
what was committed while no bus listened is published when one starts; events older than 72 hours by the org's clock are
not served, and a replay id that would need them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.errors import ReplayIdCorruptedError, ReplayIdMissingError, UnknownReplayPresetError
from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.events.bus_event import BusEvent, SecondCopies
from sfcdc_assets.emulator.events.change_event_builder import ChangeEventBuilder
from sfcdc_assets.emulator.events.event_store import EVERYWHERE, BusState, EventStore, StoredEvent
from sfcdc_assets.emulator.events.kept_schemas import KeptSchemas
from sfcdc_assets.emulator.events.org_events import org_events
from sfcdc_assets.emulator.events.platform_events.event_codec import PlatformEventCodec
from sfcdc_assets.emulator.events.replay_id import replay_counter, replay_id
from sfcdc_assets.emulator.events.shared_condition import SharedCondition
from sfcdc_assets.emulator.org.clock import MovableClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset

RETENTION_MS = 72 * 3600 * 1000
_PURGE_INTERVAL_MS = 3600 * 1000
_FAR_MS = 2**62


@dataclass(frozen=True)
class Batch:
    """Events read in one go. `through` is the number to read on after.

    `latest_replay_id` is the id a client may resume from: ahead of the last event only if the topic has nothing more to
    read, so storing it never skips an event.
    """

    events: tuple[StoredEvent, ...]
    through: int
    latest_replay_id: bytes


class EventBus:
    """The bus of one org. Thread-safe.

    `changed` is notified when something was committed, and by `wake`. Wait on it with a predicate over `last_number`,
    and take no other lock while holding it.
    """

    def __init__(self, org: EmulatedOrg, *, builder: ChangeEventBuilder | None = None) -> None:
        """Open the bus of an org. The default builder commits the org's event faults."""
        self._org = org
        self.faults = org.faults
        self._builder = builder or org_events(org, self.faults)
        self._copies = SecondCopies()
        self._purged_at = 0
        self.removals = 0
        """How often stored events were removed: what was read before and not given yet is then to be read again."""
        self.changed = SharedCondition()
        self._on_wake: list[Callable[[], None]] = []
        if isinstance(org.clock, MovableClock):
            org.clock.on_move(self.wake)
        with org.database.transaction():
            self._store = EventStore(org.database, seed=org.seed, first_commit_number=org.last_commit_number)
            self._schemas = KeptSchemas(org.database)
            state = self._store.state()
            self._last_number = state.last_number
            self._hidden: Sequence[tuple[int, int]] = self._store.after_moment(org.clock()) if self._lags else ()
            """Events that were not on the bus when that was last looked at: the first number of each time (epoch ms),
            in their order. Replaced as a whole."""
            for transaction in org.transactions(after=state.commit_number):
                self._publish(transaction)
            org.subscribe_commits(self._publish)

    def _publish(self, transaction: Transaction) -> None:
        """Publish a transaction's events. Called inside the org's lock and database transaction: events and records
        commit together or not at all.

        A transaction is stored once even if several buses of one org hear of it, as after a server was replaced.
        """
        state = self._store.state()
        number = state.last_number
        if transaction.commit_number > state.commit_number:
            events = self._builder.events(transaction, self._org.channels.published_entities)
            _, number = self._append(events, state, transaction.commit_number, self._moments(events))
        # Whatever was noted before may have been rolled back, so what the database says replaces it unconditionally.
        self._last_number = number
        self._look_ahead()
        self.wake()

    def publish(self, events: Sequence[BusEvent]) -> list[StoredEvent]:
        """Store events that no record's change raises, in one database transaction or in that around; returns each as
        it is stored. Their second copies, if any, come when they are due."""
        with self._org.database.transaction():
            state = self._store.state()
            published, self._last_number = self._append(events, state, state.commit_number)
            self._look_ahead()
        self.wake()
        return published

    @property
    def last_number(self) -> int:
        """Of the newest event that is on the bus, as a hint when to read: what counts is what the database says."""
        last_number, now = self._last_number, self._org.clock() if self._hidden else 0
        return next((number - 1 for number, at in self._hidden if at > now), last_number)

    @property
    def next_publication(self) -> int:
        """When the next event that was committed is on the bus (epoch ms); far away if none waits."""
        now = self._org.clock() if self._hidden else 0
        return next((at for _, at in self._hidden if at > now), _FAR_MS)

    @property
    def _lags(self) -> bool:
        settings = self._org.settings
        return settings.publishing_lag > 0 or settings.publishing_spread > 0

    def _moments(self, events: Sequence[BusEvent]) -> list[int]:
        """Return when each event of a transaction is on the bus: none before one that was committed before it."""
        settings = self._org.settings
        first = self._org.clock() + settings.publishing_lag
        before = self._store.newest_stored_at() if self._hidden else 0
        last = first + (settings.publishing_spread if len(events) > 1 else 0)
        return [max(before, last if number == len(events) else first) for number in range(1, len(events) + 1)]

    def _look_ahead(self) -> None:
        if self._lags or self._hidden:
            self._hidden = self._store.after_moment(self._org.clock())

    def _append(
        self, events: Sequence[BusEvent], state: BusState, commit_number: int, moments: Sequence[int] = ()
    ) -> tuple[list[StoredEvent], int]:
        self._schemas.keep_all({event.schema_id: event.schema_json for event in events}, state.last_number + 1)
        now = self._org.clock()
        published = list(self._copies.among(events))
        stored, last_number = self._store.append(
            published,
            state,
            commit_number=commit_number,
            stored_at=self._with_copies(events, published, moments, now),
            shared_counters=self._org.settings.channels_share_replay_ids,
            shared_ids=self._org.settings.siblings_share_event_id,
        )
        self._purge(now)
        firsts = {id(event) for event in events}
        return [found for event, found in zip(published, stored, strict=True) if id(event) in firsts], last_number

    def _with_copies(
        self, events: Sequence[BusEvent], published: Sequence[BusEvent], moments: Sequence[int], now: int
    ) -> list[int]:
        """Return those of the events and of the second copies among them: a copy comes with what is before it."""
        if not self._lags:
            return [now] * len(published)
        least = max(now, self._store.newest_stored_at()) if self._hidden else now
        of = dict(zip(map(id, events), moments, strict=False))
        found: list[int] = []
        for event in published:
            least = max(least, of.get(id(event), least))
            found.append(least)
        return found

    def _purge(self, now: int) -> None:
        """Delete what is past retention, now and then: as on the real bus, expired events may linger unserved."""
        if now - self._purged_at >= _PURGE_INTERVAL_MS:
            self._purged_at = now
            self.removals += 1
            self._store.purge(now - RETENTION_MS)

    def expire(self) -> None:
        """Purge all retained events now: every replay id given out until now is refused as corrupted from now on."""
        with self._org.database.transaction():
            self.removals += 1
            self._store.purge_all()

    def move(self, *, new_organization_id: bool = False) -> None:
        """Move the org to another instance, or refresh the sandbox it is, which gives it a new organization id.

        The instance has another name, no event is left, new replay ids are lower than the old ones, and those are
        refused as corrupted for good. Streams that are open go on with what comes.
        """
        with self._org.database.transaction():
            self.removals += 1
            self._store.move()
            self._org.change_instance()
            if new_organization_id:
                self._org.change_organization_id()

    def wake(self) -> None:
        """Make everybody who waits on `changed` look again."""
        with self.changed:
            self.changed.notify_all()
        for heard in self._on_wake:
            heard()

    def on_wake(self, heard: Callable[[], None]) -> None:
        """Call `heard` too whenever those who wait are woken; it must not block."""
        self._on_wake.append(heard)

    def change_events_between(self, start: int, end: int) -> int:
        """Change events stored from one moment to another (epoch ms); an event on several channels is one."""
        with self._org.database.lock:
            return self._store.change_events_between(start, end)

    def newest_schema_id(self, entity: str) -> str:
        """Return the id of the schema in which the next event of an object, or of a platform event, will be. Raises
        KeyError for one that the org does not have."""
        with self._org.database.transaction():
            return self._keep_schema(entity)

    def schema_json(self, schema_id: str) -> str | None:
        """Return a schema that is or once was in use, as it first was, as compact JSON; None if there never was one."""
        with self._org.database.transaction():
            if self._schemas.first(schema_id) is None:
                for entity in (*self._org.definitions, *self._org.platform_events.all):
                    self._keep_schema(entity)
            return self._schemas.first(schema_id)

    def schema_of(self, event: StoredEvent) -> str:
        """Return the schema that an event was written in, as compact JSON, with the docs that it had then."""
        with self._org.database.lock:
            return self._schemas.of(event) or "{}"

    def _keep_schema(self, entity: str) -> str:
        codec: EventCodec | PlatformEventCodec
        if entity in self._org.platform_events.all:
            codec = self._org.platform_events.codec(entity)
        else:
            codec = self._builder.codec(entity)
        self._schemas.keep_all({codec.schema_id: codec.schema_json}, self._store.state().last_number + 1)
        return codec.schema_id

    def latest_replay_id(self) -> bytes:
        """Return the newest id of the bus: ahead of the last event of every topic, since the bus is shared by other
        orgs."""
        return replay_id(self._store.state().counter)

    def start(self, preset: int, replay: bytes = b"", retention_ms: int = RETENTION_MS) -> int:
        """Return the number to read on after, for a subscription's replay preset (a value of `ReplayPreset`).

        LATEST is the present, EARLIEST the oldest retained event, CUSTOM strictly after `replay`. Raises
        ReplayIdMissingError for CUSTOM without an id, ReplayIdCorruptedError for an id that is not one of this
        stream's last 72 hours (`retention_ms`), and UnknownReplayPresetError.
        """
        with self._org.database.lock:
            self._last_number = self._store.state().last_number
            if preset == ReplayPreset.LATEST:
                return self.last_number
            expired_number, expired_counter = self._store.newest_before(self._org.clock() - retention_ms)
            if preset == ReplayPreset.EARLIEST:
                return expired_number
            if preset != ReplayPreset.CUSTOM:
                raise UnknownReplayPresetError(preset)
            if not replay:
                raise ReplayIdMissingError
            counter = replay_counter(replay)
            if counter is None or counter <= expired_counter or not self._store.is_known(counter):
                raise ReplayIdCorruptedError(replay)
            return self._store.number_at(counter)

    def lag(self, entities: Collection[str], after: int, channels: Collection[str] = (EVERYWHERE,)) -> int:
        """Return how many events `read` has still to give after a number."""
        with self._org.database.lock:
            return self._store.count_after(entities, after, channels)

    def before_newest(self, entities: Collection[str], count: int, channels: Collection[str] = (EVERYWHERE,)) -> int:
        """Return the number to read on after for the newest `count` events of `entities`."""
        with self._org.database.lock:
            return self._store.before_newest(entities, count, channels)

    def read(
        self,
        entities: Collection[str],
        *,
        after: int,
        max_events: int,
        max_bytes: int,
        channels: Collection[str] = (EVERYWHERE,),
    ) -> Batch:
        """Events of `entities`, objects and platform events, after a number, oldest first: at most `max_events`, and no
        more payload than `max_bytes` unless the first event alone is larger. `channels` are those of a topic."""
        with self._org.database.lock:
            state = self._store.state()
            self._last_number, counter = state.last_number, state.counter
            found = self._store.events(entities, after=after, limit=max_events + 1, channels=channels)
            hidden = self._store.first_after(self._org.clock()) if self._hidden else None
            last_number = self._last_number
            if hidden is not None:
                last_number, counter = hidden[0] - 1, hidden[1] - 1
                found = [event for event in found if event.number <= last_number]
        events: list[StoredEvent] = []
        size = 0
        for event in found:
            size += len(event.payload)
            if len(events) == max_events or (events and size > max_bytes):
                return Batch(tuple(events), events[-1].number, events[-1].replay_id)
            events.append(event)
        return Batch(tuple(events), last_number, replay_id(counter))
