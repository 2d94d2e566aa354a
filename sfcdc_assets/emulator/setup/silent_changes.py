"""What changed records although no transaction reports it: fields that come, go or are retyped, mass loads.

Kept so that the oracle can go back: each entry says how to undo one such change of an object's live records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.transaction import StoredValue

Records = dict[str, dict[str, StoredValue]]
"""Stored values by record id."""


@dataclass(frozen=True)
class SilentChange:
    """One change of all records of an object, after the transaction `after_commit` and before the next one."""

    entity: str
    after_commit: int
    added: tuple[str, ...] = ()
    """Fields that records had not had before."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old name -> new name."""
    replaced: Mapping[str, Mapping[str, StoredValue]] = field(default_factory=dict)
    """Field, by its old name -> record id -> the value it had; records that are not named had none."""
    loaded: tuple[str, str] | None = None
    """First and last id of records that were loaded without events."""

    def undo(self, records: Records) -> None:
        """Make the records of the object what they were before."""
        if self.loaded is not None:
            first, last = self.loaded
            for record_id in [one for one in records if first <= one <= last]:
                del records[record_id]
        for record_id, record in records.items():
            for name in self.added:
                record.pop(name, None)
            moved = {old: record.pop(new, None) for old, new in self.renamed.items()}
            record.update(moved)
            for name, values in self.replaced.items():
                record[name] = values.get(record_id)


class SilentChanges:
    """The list of them. Callers hold the database's lock; writing joins their transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute(
            "CREATE TABLE IF NOT EXISTS _silent_change (number INTEGER PRIMARY KEY, after_commit INTEGER NOT NULL, "
            "change TEXT NOT NULL)"
        )

    def add(self, change: SilentChange) -> None:
        """Remember a change that is being made."""
        self._database.execute(
            "INSERT INTO _silent_change (after_commit, change) VALUES (?, ?)",
            (change.after_commit, json.dumps(asdict(change), separators=(",", ":"))),
        )

    def since(self, commit_number: int) -> list[SilentChange]:
        """Return those made after the transaction of that number, the oldest first."""
        rows = self._database.rows(
            "SELECT change FROM _silent_change WHERE after_commit >= ? ORDER BY number", (commit_number,)
        )
        return [_from_json(json.loads(row[0])) for row in rows]


def _from_json(document: dict[str, Any]) -> SilentChange:
    return SilentChange(
        document["entity"],
        document["after_commit"],
        tuple(document["added"]),
        document["renamed"],
        document["replaced"],
        tuple(document["loaded"]) if document["loaded"] else None,
    )
