"""The schemas that events were written in, for as long as the org exists.

A schema's id depends on no docs (docs/salesforce-streams.md, "Topics and schemas"), which say what kind of time a long
is. By its id the org gives a schema as it first was; what an event means say the docs of its time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.org.database import Database

_TABLES = (
    "CREATE TABLE IF NOT EXISTS _bus_schema (schema_id TEXT PRIMARY KEY, schema_json TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS _bus_docs (schema_id TEXT NOT NULL, since INTEGER NOT NULL, digest TEXT NOT NULL, "
    "schema_json TEXT, PRIMARY KEY (schema_id, since)) WITHOUT ROWID",
)
"""_bus_docs: what the schema of an id is from the event with the number `since` on; without a text the first one."""


class KeptSchemas:
    """Callers hold the database's lock; writing joins their transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        for statement in _TABLES:
            database.execute(statement)

    def keep_all(self, schemas: Mapping[str, str], since: int) -> None:
        """Remember schemas, by their ids, which events are in from a number on."""
        for schema_id, schema_json in schemas.items():
            self._keep(schema_id, schema_json, since)

    def first(self, schema_id: str) -> str | None:
        """Return a schema as it first was, or None."""
        row = self._database.row("SELECT schema_json FROM _bus_schema WHERE schema_id = ?", (schema_id,))
        return None if row is None else row[0]

    def of(self, event: StoredEvent) -> str | None:
        """Return the schema that an event was written in, with the docs of then; None for one that is not known."""
        sql = "SELECT schema_json FROM _bus_docs WHERE schema_id = ? AND since <= ? ORDER BY since DESC LIMIT 1"
        row = self._database.row(sql, (event.schema_id, event.number))
        return self.first(event.schema_id) if row is None or row[0] is None else row[0]

    def _keep(self, schema_id: str, schema_json: str, since: int) -> None:
        # Asked first: to hand the text over costs more than the question, and each commit has its schemas kept.
        digest = _digest(schema_json)
        newest = "SELECT digest FROM _bus_docs WHERE schema_id = ? ORDER BY since DESC LIMIT 1"
        row = self._database.row(newest, (schema_id,))
        if row is not None and row[0] == digest:
            return
        is_first = row is None and self.first(schema_id) in (None, schema_json)
        docs = (schema_id, 0, digest, None) if is_first else (schema_id, since, digest, schema_json)
        self._database.execute("INSERT OR IGNORE INTO _bus_schema VALUES (?, ?)", (schema_id, schema_json))
        self._database.execute("INSERT OR REPLACE INTO _bus_docs VALUES (?, ?, ?, ?)", docs)


@lru_cache(maxsize=1024)
def _digest(schema_json: str) -> str:
    return hashlib.blake2b(schema_json.encode(), digest_size=16).hexdigest()
