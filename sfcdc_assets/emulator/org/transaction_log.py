"""The log of committed transactions: the oracle that tests compare tables with. One compact JSON row a transaction."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.clock import whole_second
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.transaction import RecordChange, StoredValue, Transaction

_FIRST_COMMIT_NUMBER = 12_000_000_000_000
_READ_BLOCK = 200


class TransactionLog:
    """Appends in commit order and reads back. Callers hold the database's lock while appending."""

    def __init__(self, database: Database, seed: int) -> None:
        self._database = database
        self._seed = seed
        database.execute(
            "CREATE TABLE IF NOT EXISTS _transaction (commit_number INTEGER PRIMARY KEY, transaction_key TEXT NOT "
            "NULL, "
            "commit_timestamp INTEGER NOT NULL, commit_user TEXT NOT NULL, change_origin TEXT NOT NULL, changes "
            "TEXT NOT NULL, committed_at INTEGER)"
        )
        if not database.rows("SELECT 1 FROM pragma_table_info('_transaction') WHERE name = 'committed_at'"):
            # An org that was made by an earlier version.
            database.execute("ALTER TABLE _transaction ADD COLUMN committed_at INTEGER")

    def last_until(self, moment: int) -> int:
        """Return the commit number of the last transaction that was committed at a moment (epoch ms) or before; 0 if
        there is none."""
        sql = "SELECT MAX(commit_number) FROM _transaction WHERE COALESCE(committed_at, commit_timestamp) <= ?"
        row = self._database.row(sql, (moment,))
        return row[0] or 0 if row else 0

    @property
    def last_commit_number(self) -> int:
        """The commit number of the last transaction; before the first one, the number from which they grow."""
        row = self._database.row("SELECT MAX(commit_number) FROM _transaction")
        return row[0] if row and row[0] is not None else _FIRST_COMMIT_NUMBER + self._seed

    def append(
        self, *, committed_at: int, commit_user: str, change_origin: str, changes: tuple[RecordChange, ...]
    ) -> Transaction:
        """Write a transaction with the next commit number. Numbers grow but are not dense, as those of the real
        thing. `committed_at` is epoch ms; to clients it is a whole second."""
        commit_timestamp = whole_second(committed_at)
        last = self.last_commit_number
        dice = random.Random(f"{self._seed}:{last}")
        transaction = Transaction(
            transaction_key=str(uuid.UUID(int=dice.getrandbits(128), version=4)),
            commit_number=last + 1 + dice.randrange(40),
            commit_timestamp=commit_timestamp,
            commit_user=commit_user,
            change_origin=change_origin,
            changes=changes,
        )
        self._database.execute(
            "INSERT INTO _transaction VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                transaction.commit_number,
                transaction.transaction_key,
                commit_timestamp,
                commit_user,
                change_origin,
                json.dumps([_to_json(change) for change in changes], separators=(",", ":")),
                committed_at,
            ),
        )
        return transaction

    @property
    def has_any(self) -> bool:
        """Whether a transaction was committed yet."""
        return self._database.row("SELECT 1 FROM _transaction LIMIT 1") is not None

    def transactions(
        self, definitions_at: Callable[[int], Mapping[str, ObjectDefinition]], after: int = 0
    ) -> Iterator[Transaction]:
        """Transactions with a commit number greater than `after`, in commit order, with memory for a block of them.

        `definitions_at` gives the definitions in force at a commit number: records are read with the fields of then.
        """
        while True:
            rows = self._database.rows(
                "SELECT commit_number, transaction_key, commit_timestamp, commit_user, change_origin, changes "
                f"FROM _transaction WHERE commit_number > ? ORDER BY commit_number LIMIT {_READ_BLOCK}",
                (after,),
            )
            for number, key, timestamp, user, origin, changes in rows:
                definitions = definitions_at(number)
                items = tuple(_from_json(item, definitions.get(item["e"])) for item in json.loads(changes))
                yield Transaction(key, number, timestamp, user, origin, items)
            if len(rows) < _READ_BLOCK:
                return
            after = rows[-1][0]


def _to_json(change: RecordChange) -> dict[str, Any]:
    """Keys: e entity, i id, t type, a/b non-null values after/before, o old values of what differs, c changed, m
    master, v conversion, s silent, d made in the database."""
    item: dict[str, Any] = {"e": change.entity, "i": change.record_id, "t": change.change_type}
    if change.after is not None:
        item["a"] = {name: value for name, value in change.after.items() if value is not None}
        if change.before is not None:
            differing = change.before.items() - change.after.items()
            item["o"] = {name: value for name, value in change.before.items() if (name, value) in differing}
    elif change.before is not None:
        item["b"] = {name: value for name, value in change.before.items() if value is not None}
    if change.changed_fields:
        item["c"] = change.changed_fields
    if change.master_record_id:
        item["m"] = change.master_record_id
    if change.is_conversion:
        item["v"] = True
    if change.is_silent:
        item["s"] = True
    if change.is_database_change:
        item["d"] = True
    return item


def _from_json(item: Mapping[str, Any], definition: ObjectDefinition | None) -> RecordChange:
    names = [field.name for field in definition.stored_fields] if definition else []
    after: dict[str, StoredValue] | None = None
    before: dict[str, StoredValue] | None = None
    if "a" in item:
        after = {**dict.fromkeys(names), **item["a"]}
        if "o" in item:
            before = {**after, **item["o"]}
    elif "b" in item:
        before = {**dict.fromkeys(names), **item["b"]}
    return RecordChange(
        item["e"],
        item["i"],
        item["t"],
        before,
        after,
        tuple(item.get("c", ())),
        item.get("m"),
        item.get("v", False),
        item.get("s", False),
        item.get("d", False),
    )
