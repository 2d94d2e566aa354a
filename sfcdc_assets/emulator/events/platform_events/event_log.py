"""The oracle of platform events: everything that was published, for as long as the org exists."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import fastavro

from sfcdc_assets.emulator.events.platform_events.event_codec import decoded_payload
from sfcdc_assets.emulator.org.database import Database

_MINUTE = 60_000


@dataclass(frozen=True)
class PublishedEvent:
    """One event that was accepted. `number` counts from 1 over all events; `replay_id` is what subscribers see.

    `published_at` is epoch ms; `schema_json` is what the payload was written in.
    """

    number: int
    name: str
    event_id: str
    replay_id: bytes
    schema_id: str
    schema_json: str
    payload: bytes
    published_at: int
    published_by: str

    @property
    def values(self) -> dict[str, object] | None:
        """The fields in Avro's values (moments and dates are epoch ms); None for a payload that cannot be read."""
        return decoded_payload(_parsed(self.schema_json), self.payload)


class PlatformEventLog:
    """Reads and writes it. Callers that write are inside the database's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute(
            "CREATE TABLE IF NOT EXISTS _platform_event_log (number INTEGER PRIMARY KEY, name TEXT NOT NULL, "
            "event_id TEXT NOT NULL, replay_id BLOB NOT NULL, schema_id TEXT NOT NULL, payload BLOB NOT NULL, "
            "published_at INTEGER NOT NULL, published_by TEXT NOT NULL)"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS _platform_event_count (minute INTEGER, name TEXT, count INTEGER, "
            "PRIMARY KEY (minute, name)) WITHOUT ROWID"
        )

    def add(
        self, name: str, event_id: str, replay: bytes, schema_id: str, payload: bytes, published_at: int, user: str
    ) -> None:
        """Keep one more."""
        self._database.execute(
            "INSERT INTO _platform_event_log (name, event_id, replay_id, schema_id, payload, published_at, "
            "published_by) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (name, event_id, replay, schema_id, payload, published_at, user),
        )
        self._database.execute(
            "INSERT INTO _platform_event_count VALUES (?, ?, 1) ON CONFLICT (minute, name) DO UPDATE SET "
            "count = count + 1",
            (published_at // _MINUTE, name),
        )

    def since(self, number: int = 0, limit: int = -1) -> list[PublishedEvent]:
        """Return those after a number, the oldest first; at most `limit` unless it is negative."""
        rows = self._database.rows(
            "SELECT l.number, l.name, l.event_id, l.replay_id, l.schema_id, s.schema_json, l.payload, l.published_at, "
            "l.published_by FROM _platform_event_log l JOIN _bus_schema s USING (schema_id) WHERE l.number > ? "
            "ORDER BY l.number LIMIT ?",
            (number, limit),
        )
        return [PublishedEvent(*row) for row in rows]

    def count(self, names: Collection[str], since: int) -> int:
        """Return how many of some events were published after a moment (epoch ms), in steps of a minute."""
        chosen = sorted(names)
        row = self._database.row(
            "SELECT SUM(count) FROM _platform_event_count WHERE minute > ? AND "
            f"name IN ({','.join('?' * len(chosen))})",
            (since // _MINUTE, *chosen),
        )
        return (row[0] or 0) if row else 0

    def count_between(self, start: int, end: int) -> int:
        """Return how many events were published from one full minute to another (epoch ms)."""
        row = self._database.row(
            "SELECT SUM(count) FROM _platform_event_count WHERE minute >= ? AND minute < ?",
            (start // _MINUTE, end // _MINUTE),
        )
        return (row[0] or 0) if row else 0


@lru_cache(maxsize=64)
def _parsed(schema_json: str) -> object:
    return fastavro.parse_schema(json.loads(schema_json))
