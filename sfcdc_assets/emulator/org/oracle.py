"""The oracle: what is true in the org, now and right after any transaction, for whoever compares a copy with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sfcdc_assets.emulator.definitions.definition_versions import BEFORE_ALL, DefinitionVersions
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.formulas.formula_field import formula_sql
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.record_history import undo_since
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import StoredValue, Transaction
from sfcdc_assets.emulator.org.transaction_log import TransactionLog
from sfcdc_assets.emulator.setup.silent_changes import Records, SilentChange, SilentChanges


class Oracle:
    """Reads only. Thread-safe: every method takes the lock it needs."""

    database: Database
    definitions: dict[str, ObjectDefinition]
    _store: RecordStore
    _log: TransactionLog
    _versions: DefinitionVersions
    _silent_changes: SilentChanges

    def transactions(self, after: int = 0) -> Iterator[Transaction]:
        """Return the transactions, the oracle: committed transactions with a commit number greater than `after`, in
        commit order."""
        return self._log.transactions(self._versions.at, after)

    @property
    def last_commit_number(self) -> int:
        """Of the last committed transaction; `transactions(after=...)` of it gives what comes later."""
        return self._log.last_commit_number

    def record(self, entity: str, record_id: str) -> dict[str, StoredValue] | None:
        """Return the truth of one record: all stored and computed fields by API name, deleted or not; None if there is
        none."""
        with self.database.lock:
            return self._store.record(self.definitions[entity], to_18(record_id), self._formulas(entity))

    def records(self, entity: str, *, include_deleted: bool = False) -> Iterator[dict[str, StoredValue]]:
        """Return the truth of all records in order of Id; for one consistent state hold `database.lock` meanwhile."""
        definition = self.definitions[entity]
        return self._store.records(definition, include_deleted=include_deleted, formulas=self._formulas(entity))

    def _formulas(self, entity: str) -> dict[str, str]:
        """Field -> the SQL of its value, of an object's formulas."""
        definition = self.definitions[entity]
        return {
            field.name: formula_sql(definition, field, self.definitions)
            for field in definition.fields
            if field.is_formula
        }

    def silent_changes(self) -> list[SilentChange]:
        """Return the changes that no transaction has: all of them, the oldest first."""
        with self.database.lock:
            return self._silent_changes.since(BEFORE_ALL)

    def field_generation(self, entity: str, name: str) -> int:
        """Return how many versions of an object have had a field of that name: greater than 0 if one was dropped."""
        return self._versions.had_field(entity, name)

    def definitions_at(self, commit_number: int) -> Mapping[str, ObjectDefinition]:
        """Return the objects, with their fields, as they were when that transaction was committed; 0: as the org
        began."""
        with self.database.lock:
            return self._versions.at(commit_number)

    def state_at(self, commit_number: int) -> dict[str, Records]:
        """Return the oracle's past: object -> id -> stored values of all live records right after that transaction.

        0 is the state before the first transaction: the day-0 data. Fields are those of that time; fields added,
        dropped or retyped before the next transaction are not yet. Costs what has happened since, and the memory of
        all records.
        """
        with self.database.lock:
            return self._past(commit_number, list(self.definitions))

    def records_at(self, entity: str, commit_number: int) -> Records:
        """`state_at` of one object; nothing if the object did not exist."""
        with self.database.lock:
            return self._past(commit_number, [entity]).get(entity, {})

    def seen_at(self, entity: str, moment: int) -> Records:
        """Return what a perfect poller would have found of an object at a moment (epoch ms): the stored values of all
        live records by id, as far as transactions were committed by then. What an open one has done is not in it."""
        with self.database.lock:
            return self._past(self._log.last_until(moment), [entity]).get(entity, {})

    def _past(self, commit_number: int, entities: Sequence[str]) -> dict[str, Records]:
        present = {
            entity: {
                str(record["Id"]): record
                for record in self._store.records(
                    self.definitions[entity], include_deleted=False, fields=self.definitions[entity].stored_fields
                )
            }
            for entity in entities
        }
        transactions = self.transactions(after=commit_number)
        silent = self._silent_changes.since(commit_number)
        return undo_since(present, transactions, silent, self._versions.at(commit_number))

    def count(self, entity: str, *, include_deleted: bool = False) -> int:
        """Return the number of records."""
        return self._store.count(self.definitions[entity], include_deleted=include_deleted)
