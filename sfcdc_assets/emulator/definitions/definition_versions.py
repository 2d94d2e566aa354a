"""Every version an object's definition ever had, so that a past transaction is read with the fields of its time."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.database import Database

BEFORE_ALL = -1
"""What the definitions an org begins with are said to follow."""


class DefinitionVersions:
    """Appended to when a definition is added or replaced. Callers hold the database's lock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute(
            "CREATE TABLE IF NOT EXISTS _object_version (number INTEGER PRIMARY KEY, after_commit INTEGER NOT NULL, "
            "definition TEXT NOT NULL)"
        )
        self._after: list[int] = []
        self._definitions: list[Mapping[str, ObjectDefinition]] = []
        for after_commit, text in database.rows("SELECT after_commit, definition FROM _object_version ORDER BY number"):
            self._remember(ObjectDefinition.from_json(json.loads(text)), after_commit)

    def add(self, definition: ObjectDefinition, after_commit: int) -> None:
        """`definition` is in force for transactions with a commit number greater than `after_commit`."""
        self._database.execute(
            "INSERT INTO _object_version (after_commit, definition) VALUES (?, ?)",
            (after_commit, definition.json_text),
        )
        self._remember(definition, after_commit)

    def begin(self, definitions: Mapping[str, ObjectDefinition]) -> None:
        """Make the present definitions the first versions of objects that have none: of an org as it begins."""
        known = self._definitions[-1] if self._definitions else {}
        for definition in definitions.values():
            if definition.name not in known:
                self.add(definition, BEFORE_ALL)

    def at(self, commit_number: int) -> Mapping[str, ObjectDefinition]:
        """Return the definitions in force when the transaction of that number was committed; 0: before the first
        one."""
        place = bisect_left(self._after, commit_number)
        return self._definitions[place - 1] if place else {}

    def had_field(self, entity: str, name: str) -> int:
        """Return how many versions of the object had a field of that name."""
        return sum(
            name in definitions[entity].fields_by_name for definitions in self._definitions if entity in definitions
        )

    def _remember(self, definition: ObjectDefinition, after_commit: int) -> None:
        known = self._definitions[-1] if self._definitions else {}
        self._after.append(after_commit)
        self._definitions.append({**known, definition.name: definition})
