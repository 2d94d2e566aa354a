"""Lookups that were cleared because their record was deleted, which come back with it (Apex Developer Guide, "Deleting
Records": undelete restores the lookups that were not replaced)."""

from __future__ import annotations

from typing import NamedTuple

from sfcdc_assets.emulator.org.database import Database


class ClearedLookup(NamedTuple):
    """A field of a record that named a record of the id `parent_id`."""

    parent_id: str
    child: str
    child_id: str
    field: str


class ClearedLookups:
    """The list of them. Callers hold the database's lock; writing joins their transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute(
            "CREATE TABLE IF NOT EXISTS _cleared_lookup (parent_id TEXT, child TEXT, child_id TEXT, field TEXT, "
            "PRIMARY KEY (parent_id, child_id, field))"
        )

    def add(self, cleared: ClearedLookup) -> None:
        """Remember what a field named."""
        self._database.execute("INSERT OR IGNORE INTO _cleared_lookup VALUES (?, ?, ?, ?)", cleared)

    def take(self, parent_id: str) -> list[ClearedLookup]:
        """Return those that named a record, which are forgotten."""
        rows = self._database.rows("SELECT * FROM _cleared_lookup WHERE parent_id = ? ORDER BY rowid", (parent_id,))
        if rows:
            self._database.execute("DELETE FROM _cleared_lookup WHERE parent_id = ?", (parent_id,))
        return [ClearedLookup(*row) for row in rows]
