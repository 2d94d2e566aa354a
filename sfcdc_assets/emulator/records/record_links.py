"""Records that belong together in a way that no field shows."""

from __future__ import annotations

from enum import StrEnum

from sfcdc_assets.emulator.org.database import Database


class Link(StrEnum):
    """In which ways records belong together that no field shows."""

    CHILD_EVENT = "child_event"
    """From a calendar event to its copies in the calendars of those who are invited."""
    DELETED_WITH = "deleted_with"
    """From a record to those that went into the recycle bin because of it."""


class RecordLinks:
    """The list of them. Callers hold the database's lock; writing joins their transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute(
            "CREATE TABLE IF NOT EXISTS _link (link TEXT, from_id TEXT, to_id TEXT, PRIMARY KEY (link, from_id, to_id))"
        )

    def add(self, link: Link, from_id: str, to_id: str) -> None:
        """Remember that a record belongs to another one."""
        self._database.execute("INSERT OR IGNORE INTO _link VALUES (?, ?, ?)", (link, from_id, to_id))

    def forget(self, link: Link, from_id: str) -> None:
        """Forget all records that belong to one."""
        self._database.execute("DELETE FROM _link WHERE link = ? AND from_id = ?", (link, from_id))

    def of(self, link: Link, from_id: str) -> list[str]:
        """Return the ids of the records that belong to one, deleted records' too, in the order they were added."""
        rows = self._database.rows(
            "SELECT to_id FROM _link WHERE link = ? AND from_id = ? ORDER BY rowid", (link, from_id)
        )
        return [row[0] for row in rows]
