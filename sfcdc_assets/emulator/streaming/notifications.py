"""Notifications of PushTopics and generic channels, kept for 24 hours in the org's database (Streaming API Developer
Guide, "Message Durability"). Their replay ids are of their own: those of change events mean nothing here."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.events.replay_id import next_counter
from sfcdc_assets.emulator.org.org import EmulatedOrg

RETENTION_MS = 24 * 3_600_000


@dataclass(frozen=True)
class Notification:
    """One message: `source` is the id of the PushTopic or StreamingChannel, `replay_id` that of the message."""

    number: int
    replay_id: int
    source: str
    created: int
    body: Mapping[str, Any]


class NotificationLog:
    """The notifications of one org. Callers that write hold the database's lock."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _notification (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "replay_id INTEGER NOT NULL, source TEXT NOT NULL, created INTEGER NOT NULL, body TEXT NOT NULL)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _notification_state (one INTEGER PRIMARY KEY CHECK (one = 1), "
            "commit_number INTEGER NOT NULL)"
        )
        self._database.execute("INSERT OR IGNORE INTO _notification_state VALUES (1, 0)")
        self.last_number = self._last()[0]
        """Of the newest, as a hint when to read."""

    def add(self, source: str, body: Mapping[str, Any]) -> None:
        """Keep one more."""
        _, last = self._last()
        self._database.execute(
            "INSERT INTO _notification (replay_id, source, created, body) VALUES (?, ?, ?, ?)",
            (next_counter(self._org.seed, last), source, self._org.clock(), json.dumps(body)),
        )
        self.last_number = self._last()[0]

    def claim(self, commit_number: int) -> bool:
        """Return whether nobody has evaluated this commit yet: several logs of one org hear of it where a server was
        replaced. Called for each commit, inside its database transaction."""
        row = self._database.row("SELECT commit_number FROM _notification_state")
        self.last_number = self._last()[0]
        if row is not None and row[0] >= commit_number:
            return False
        self._database.execute("UPDATE _notification_state SET commit_number = ?", (commit_number,))
        return True

    def start(self, place: int) -> int:
        """Return the number to read on after: for -1 the newest, for -2 the oldest that is kept, or that of a replay
        id.

        Raises ReplayIdCorruptedError for one that was not given out in the last 24 hours.
        """
        with self._database.lock:
            if place == -1:
                return self._last()[0]
            expired = self._database.row(
                "SELECT MAX(number) FROM _notification WHERE created < ?", (self._org.clock() - RETENTION_MS,)
            )
            oldest: int = (expired[0] if expired else None) or 0
            if place == -2:
                return oldest
            row = self._database.row("SELECT number FROM _notification WHERE replay_id = ?", (place,))
            if row is None or row[0] < oldest:
                raise ReplayIdCorruptedError(str(place).encode())
            number: int = row[0]
            return number

    def read(self, sources: Collection[str] | None, after: int, most: int) -> tuple[list[Notification], int]:
        """Return those of some sources, or of all, after a number, oldest first, and the number to read on after."""
        with self._database.lock:
            self.last_number = last = self._last()[0]
            condition, parameters = self._kept(sources)
            rows = self._database.rows(
                "SELECT number, replay_id, source, created, body FROM _notification"
                f" WHERE {condition} AND number > ? ORDER BY number LIMIT ?",
                (*parameters, after, most),
            )
        found = [Notification(number, id_, of, created, json.loads(body)) for number, id_, of, created, body in rows]
        return found, found[-1].number if len(found) == most else last

    def before_newest(self, sources: Collection[str] | None, most: int) -> int:
        """Return the number after which only the newest `most` of some sources, or of all, come; 0 if there are no
        more."""
        condition, parameters = self._kept(sources)
        sql = f"SELECT number FROM _notification WHERE {condition} ORDER BY number DESC LIMIT 1 OFFSET ?"
        row = self._database.row(sql, (*parameters, most))
        return int(row[0]) if row else 0

    def count_after(self, sources: Collection[str] | None, number: int) -> int:
        """Return how many `read` would give after a number without a limit."""
        condition, parameters = self._kept(sources)
        sql = f"SELECT COUNT(*) FROM _notification WHERE {condition} AND number > ?"
        row = self._database.row(sql, (*parameters, number))
        return int(row[0]) if row else 0

    def _kept(self, sources: Collection[str] | None) -> tuple[str, tuple[object, ...]]:
        """Return a condition for those of some sources, or of all, that are not past their time, with its
        parameters."""
        oldest = self._org.clock() - RETENTION_MS
        if sources is None:
            return "created >= ?", (oldest,)
        return f"created >= ? AND source IN ({','.join('?' * len(sources))})", (oldest, *sources)

    def _last(self) -> tuple[int, int]:
        row = self._database.row("SELECT number, replay_id FROM _notification ORDER BY number DESC LIMIT 1")
        return (row[0], row[1]) if row else (0, 0)
