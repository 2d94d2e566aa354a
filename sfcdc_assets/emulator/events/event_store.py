"""The bus's tables in the org's database: events, and the shared replay counter."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sfcdc_assets.emulator.events.bus_event import BusEvent
from sfcdc_assets.emulator.events.replay_id import first_counter, next_counter, replay_id
from sfcdc_assets.emulator.org.database import Database

EVERYWHERE = ""
"""Channel of an event on the channel of all objects and on its object's own."""
OWN_TOPIC = "-"
"""Channel of an event on its object's own only: an object that only custom channels have."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS _bus_event (number INTEGER PRIMARY KEY, counter INTEGER NOT NULL, "
    "event_id TEXT NOT NULL, entity TEXT NOT NULL, schema_id TEXT NOT NULL, payload BLOB NOT NULL, "
    "stored_at INTEGER NOT NULL, channel TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX IF NOT EXISTS _bus_event_counter ON _bus_event (counter)",
    "CREATE INDEX IF NOT EXISTS _bus_event_stored_at ON _bus_event (stored_at)",
    "CREATE INDEX IF NOT EXISTS _bus_event_entity ON _bus_event (entity, number)",
    "CREATE TABLE IF NOT EXISTS _bus_state (one INTEGER PRIMARY KEY CHECK (one = 1), last_number INTEGER NOT NULL, "
    "counter INTEGER NOT NULL, lost_through INTEGER NOT NULL, commit_number INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS _bus_left (lowest INTEGER NOT NULL, highest INTEGER NOT NULL)",
)
"""_bus_left: replay counters from before the org was moved. They never become valid again."""


class StoredEvent(NamedTuple):
    """An event on the bus. `number` is its dense order and never leaves the process; `counter` is its replay id."""

    number: int
    counter: int
    event_id: str
    entity: str
    schema_id: str
    payload: bytes

    @property
    def replay_id(self) -> bytes:
        """The 10 bytes a client receives."""
        return replay_id(self.counter)

    @property
    def is_platform_event(self) -> bool:
        """Whether it is one, and no change of an object's record."""
        return self.entity.endswith("__e")


@dataclass(frozen=True)
class BusState:
    """Where the bus stands: number of the newest event, the newest replay counter, and the last published commit.

    Something may be missing after ids up to `lost_through`: events after them were purged, or were never on this bus.
    """

    last_number: int
    counter: int
    lost_through: int
    commit_number: int


class EventStore:
    """Reads and writes stored events. Callers hold the database's lock; writing joins their transaction."""

    def __init__(self, database: Database, *, seed: int, first_commit_number: int) -> None:
        """Open the tables. A new bus starts after `first_commit_number`."""
        self._database = database
        self._seed = seed
        self._known: tuple[int, BusState] | None = None
        for statement in _TABLES:
            database.execute(statement)
        if "channel" not in {row[1] for row in database.rows("PRAGMA table_info(_bus_event)")}:
            database.execute("ALTER TABLE _bus_event ADD COLUMN channel TEXT NOT NULL DEFAULT ''")
        database.execute("CREATE INDEX IF NOT EXISTS _bus_event_channel ON _bus_event (channel, number)")
        counter = first_counter(seed)
        database.execute(
            "INSERT OR IGNORE INTO _bus_state VALUES (1, 0, ?, ?, ?)", (counter, counter - 1, first_commit_number)
        )

    def state(self) -> BusState:
        """Return where the bus stands in the database, an open transaction of this thread included."""
        version = self._database.version
        if version is not None and self._known is not None and self._known[0] == version:
            return self._known[1]
        row = self._database.row("SELECT last_number, counter, lost_through, commit_number FROM _bus_state")
        assert row is not None
        state = BusState(*row)
        self._known = None if version is None else (version, state)
        return state

    def append(
        self,
        events: Sequence[BusEvent],
        state: BusState,
        *,
        commit_number: int,
        stored_at: Sequence[int],
        shared_counters: bool = True,
        shared_ids: bool = True,
    ) -> tuple[list[StoredEvent], int]:
        """Store a transaction's events after `state`, each with a uuid and the next replay counter, and with the time
        (epoch ms) from which it is on the bus; returns them as they are on their own topics, without those of custom
        channels, and the number of the last event that is stored now.

        An event that comes beside the previous one shares its counter. On custom channels an event has the same uuid
        and, with `shared_counters`, the same counter; without `shared_ids`, all but the first of those into which it is
        taken apart there have uuids of their own.
        """
        number, counter = state.last_number, state.counter
        left = self._left()
        rows = []
        stored = []
        for event, at in zip(events, stored_at, strict=True):
            number += 1
            if not event.beside_previous:
                counter = self._next(counter, left)
            event_id = event.event_id or self._event_id(number)
            what, channel = (event.entity, event.schema_id), EVERYWHERE if event.is_selected else OWN_TOPIC
            rows.append((number, counter, event_id, *what, event.payload, at, channel))
            stored.append(StoredEvent(number, counter, event_id, *what, event.payload))
            for name, payloads in event.channel_payloads:
                if not shared_counters:
                    counter = self._next(counter, left)
                for place, payload in enumerate(payloads):
                    number += 1
                    part_id = event_id if shared_ids or place == 0 else self._event_id(number)
                    rows.append((number, counter, part_id, *what, payload, at, name))
        self._database.execute_many("INSERT INTO _bus_event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        # One more jump after the last event: other orgs' events make the newest id run ahead of the last delivered one.
        self._database.execute(
            "UPDATE _bus_state SET last_number = ?, counter = ?, commit_number = ?",
            (number, self._next(counter, left), commit_number),
        )
        return stored, number

    def _next(self, counter: int, left: Sequence[tuple[int, int]]) -> int:
        """Return the next counter, none of those that were `left` when the org was moved."""
        counter = next_counter(self._seed, counter)
        within = [highest for lowest, highest in left if lowest <= counter <= highest]
        return self._next(max(within), left) if within else counter

    def _left(self) -> list[tuple[int, int]]:
        return [(lowest, highest) for lowest, highest in self._database.rows("SELECT lowest, highest FROM _bus_left")]

    def is_known(self, counter: int) -> bool:
        """Return whether a replay counter can be resumed after: nothing was purged since, and it is of this life of the
        org.

        Retention is the caller's to judge.
        """
        state = self.state()
        is_left = any(lowest <= counter <= highest for lowest, highest in self._left())
        return state.lost_through < counter <= state.counter and not is_left

    def events(
        self, entities: Collection[str], *, after: int, limit: int, channels: Collection[str] = (EVERYWHERE,)
    ) -> list[StoredEvent]:
        """Events of `entities` on any of `channels` with a number greater than `after`, oldest first."""
        names = sorted(entities)
        # A unary plus keeps SQLite from an index that would make it read everything stored and sort.
        entity, channel = ("entity", "+channel") if len(names) == 1 else ("+entity", "channel")
        if len(channels) > 1:
            channel = "+channel"
        rows = self._database.rows(
            "SELECT number, counter, event_id, entity, schema_id, payload FROM _bus_event"
            f" WHERE number > ? AND {entity} IN ({','.join('?' * len(names))})"
            f" AND {channel} IN ({','.join('?' * len(channels))}) ORDER BY number LIMIT ?",
            (after, *names, *channels, limit),
        )
        return list(map(StoredEvent._make, rows))

    def newest_stored_at(self) -> int:
        """Return the time (epoch ms) of the last event, which may be still to come; 0 without any."""
        row = self._database.row("SELECT stored_at FROM _bus_event ORDER BY number DESC LIMIT 1")
        return 0 if row is None else int(row[0])

    def first_after(self, moment: int) -> tuple[int, int] | None:
        """Return the number and counter of the first event that is on the bus only after a moment (epoch ms); None if
        there is none."""
        row = self._database.row(
            "SELECT number, counter FROM _bus_event WHERE stored_at > ? ORDER BY number LIMIT 1", (moment,)
        )
        return None if row is None else (row[0], row[1])

    def after_moment(self, moment: int) -> list[tuple[int, int]]:
        """Return the times (epoch ms) after a moment from which events are on the bus, each with the number of its
        first."""
        sql = "SELECT MIN(number), stored_at FROM _bus_event WHERE stored_at > ? GROUP BY stored_at ORDER BY 1"
        return [(number, at) for number, at in self._database.rows(sql, (moment,))]

    def count_after(self, entities: Collection[str], after: int, channels: Collection[str] = (EVERYWHERE,)) -> int:
        """Return how many events `events` would give without a limit."""
        sql = f"SELECT COUNT(*) FROM _bus_event WHERE number > ? AND {_among(entities, channels)}"
        row = self._database.row(sql, (after, *sorted(entities), *channels))
        return int(row[0]) if row else 0

    def before_newest(self, entities: Collection[str], count: int, channels: Collection[str] = (EVERYWHERE,)) -> int:
        """Return the number after which only the newest `count` events of `entities` come; 0 if there are no more."""
        sql = f"SELECT number FROM _bus_event WHERE {_among(entities, channels)} ORDER BY number DESC LIMIT 1 OFFSET ?"
        row = self._database.row(sql, (*sorted(entities), *channels, count))
        return int(row[0]) if row else 0

    def number_at(self, counter: int) -> int:
        """Return the number of the newest stored event whose counter is at most `counter`; 0 if there is none."""
        row = self._database.row(
            "SELECT number FROM _bus_event WHERE counter <= ? ORDER BY counter DESC, number DESC LIMIT 1",
            (counter,),
        )
        return 0 if row is None else row[0]

    def newest_before(self, moment: int) -> tuple[int, int]:
        """Return the number and counter of the newest event stored before `moment` (epoch ms); zeros if there is
        none."""
        row = self._database.row(
            "SELECT number, counter FROM _bus_event WHERE stored_at < ? ORDER BY stored_at DESC, number DESC LIMIT 1",
            (moment,),
        )
        return (0, 0) if row is None else (row[0], row[1])

    def purge(self, before: int) -> None:
        """Delete events stored before a moment (epoch ms), and remember that ids up to theirs are lost."""
        lost_through = max(self.state().lost_through, self.newest_before(before)[1])
        self._database.execute("UPDATE _bus_state SET lost_through = ?", (lost_through,))
        self._database.execute("DELETE FROM _bus_event WHERE stored_at < ?", (before,))

    def purge_all(self) -> None:
        """Delete all events: every replay id given out until now is refused from now on."""
        self._database.execute("DELETE FROM _bus_event")
        counter = self.state().counter
        following = self._next(counter, self._left())
        self._database.execute("UPDATE _bus_state SET lost_through = ?, counter = ?", (counter, following))

    def move(self) -> None:
        """Move the bus as when the org moves to another instance: no event is left and replay ids begin again, lower
        than before."""
        self.purge_all()
        row = self._database.row("SELECT MIN(lowest) FROM _bus_left")
        began = first_counter(self._seed) if row is None or row[0] is None else row[0] // 2
        self._database.execute("INSERT INTO _bus_left VALUES (?, ?)", (began, self.state().counter))
        # Half of the way down to zero each time: below all that was ever given out, however often the org moves.
        start = began // 2
        self._database.execute("UPDATE _bus_state SET lost_through = ?, counter = ?", (start - 1, start))

    def change_events_between(self, start: int, end: int) -> int:
        """Change events stored from one moment to another, those on custom channels not counted again."""
        sql = "SELECT COUNT(*) FROM _bus_event WHERE stored_at >= ? AND stored_at < ? AND channel IN (?, ?) "
        sql += "AND entity NOT LIKE '%!_!_e' ESCAPE '!'"
        row = self._database.row(sql, (start, end, EVERYWHERE, OWN_TOPIC))
        return int(row[0]) if row else 0

    def _event_id(self, number: int) -> str:
        digest = hashlib.blake2b(f"{self._seed}:{number}".encode(), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))


def _among(entities: Collection[str], channels: Collection[str]) -> str:
    """Return a condition whose parameters are the entities, sorted, and the channels. Their indexes would have SQLite
    sort, or read all that is stored, so it goes by number."""
    return f"+entity IN ({','.join('?' * len(entities))}) AND +channel IN ({','.join('?' * len(channels))})"
