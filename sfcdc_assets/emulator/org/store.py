"""The rows of records: written, read, counted, put into the recycle bin and removed for good. Formulas are computed
when they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.org.database import Database, quoted
from sfcdc_assets.emulator.org.ids import new_id, new_ids
from sfcdc_assets.emulator.org.object_tables import ObjectTables, columns_of
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.cleared_lookups import ClearedLookups
from sfcdc_assets.emulator.records.record_links import RecordLinks

_FIRST_COUNTER = 3_000_000
_READ_BLOCK = 1000


class RecordStore:
    """Rows as the org holds them now, deleted ones (in the recycle bin) among them. Callers hold the database's
    lock."""

    def __init__(self, database: Database, instance: str) -> None:
        """`instance` is the three characters of the org instance in record ids."""
        self._database = database
        self.instance = instance
        self.cleared_lookups = ClearedLookups(database)
        self.links = RecordLinks(database)
        self.tables = ObjectTables(database)
        self._indexed: dict[tuple[str, str], ObjectDefinition] = {}
        self._queries: dict[tuple[str, int], tuple[ObjectDefinition, str]] = {}
        database.execute(
            "CREATE TABLE IF NOT EXISTS _id_counter (key_prefix TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS _purged_record (entity TEXT, id TEXT, deleted_at INTEGER, PRIMARY KEY "
            "(entity, id)) "
            "WITHOUT ROWID"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS _still_shown (entity TEXT, id TEXT, shown_until INTEGER, PRIMARY KEY "
            "(entity, id)) WITHOUT ROWID"
        )

    def reserve(self, definition: ObjectDefinition, count: int = 1) -> int:
        """Return the first of `count` numbers for new records of the object; numbers only grow."""
        row = self._database.row(
            "INSERT INTO _id_counter VALUES (?, ?) ON CONFLICT (key_prefix) DO UPDATE SET next = next + ? "
            "RETURNING next",
            (definition.key_prefix, _FIRST_COUNTER + count, count),
        )
        if row is None:
            raise RuntimeError("SQLite returned no counter")
        return int(row[0]) - count

    def record_id(self, definition: ObjectDefinition, number: int) -> str:
        """Return the id of the record with that number."""
        return new_id(definition.key_prefix, self.instance, number)

    def record_ids(self, definition: ObjectDefinition, first: int, count: int) -> list[str]:
        """Return the ids of the records with so many numbers in a row."""
        return new_ids(definition.key_prefix, self.instance, first, count)

    def insert(self, definition: ObjectDefinition, values: Mapping[str, StoredValue]) -> None:
        """Add a row."""
        self.insert_rows(definition, tuple(values), [tuple(values.values())])

    def insert_rows(
        self, definition: ObjectDefinition, columns: Sequence[str], rows: Sequence[Sequence[StoredValue]]
    ) -> None:
        """Add many rows at once."""
        self._database.execute_many(
            f"INSERT INTO {quoted(definition.name)} ({', '.join(map(quoted, columns))}) "
            f"VALUES ({', '.join('?' * len(columns))})",
            rows,
        )

    def update(self, definition: ObjectDefinition, record_id: str, values: Mapping[str, StoredValue]) -> int:
        """Set columns of one row; returns how many rows there are, 1 or 0."""
        assignments = ", ".join(f"{quoted(name)} = ?" for name in values)
        return self._database.execute(
            f'UPDATE {quoted(definition.name)} SET {assignments} WHERE "Id" = ?',
            (*values.values(), record_id),
        )

    def purge(
        self, definition: ObjectDefinition, record_id: str, deleted_at: int, *, shown_until: int | None = None
    ) -> None:
        """Remove a row for good; its id and when it was deleted are kept for the list of deleted records.
        `shown_until`: it stays among the deleted ones until then, though nothing brings it back."""
        if shown_until is None:
            self._remove(definition, record_id)
        else:
            self._database.execute(
                "INSERT OR REPLACE INTO _still_shown VALUES (?, ?, ?)", (definition.name, record_id, shown_until)
            )
        self._database.execute(
            "INSERT OR REPLACE INTO _purged_record VALUES (?, ?, ?)", (definition.name, record_id, deleted_at)
        )

    def is_purged(self, definition: ObjectDefinition, record_id: str) -> bool:
        """Return whether a record was removed for good, shown or not."""
        sql = "SELECT 1 FROM _purged_record WHERE entity = ? AND id = ?"
        return self._database.row(sql, (definition.name, record_id)) is not None

    def hide_purged(self, definitions: Mapping[str, ObjectDefinition], now: int) -> None:
        """Remove the rows that were to be shown until now."""
        rows = self._database.rows("SELECT entity, id FROM _still_shown WHERE shown_until <= ?", (now,))
        for entity, record_id in rows:
            if entity in definitions:
                self._remove(definitions[entity], record_id)
        self._database.execute("DELETE FROM _still_shown WHERE shown_until <= ?", (now,))

    def binned_until(self, definition: ObjectDefinition, moment: int) -> list[str]:
        """Ids of the rows that went into the recycle bin until a moment (epoch ms) and can still come back; none of an
        object whose records only go with others."""
        if "SystemModstamp" not in definition.fields_by_name:
            return []
        sql = (
            f'SELECT "Id" FROM {quoted(definition.name)} WHERE "IsDeleted" = 1 AND "SystemModstamp" <= ? AND "Id" '
            'NOT IN (SELECT id FROM _still_shown WHERE entity = ?) ORDER BY "Id"'
        )
        return [row[0] for row in self._database.rows(sql, (moment, definition.name))]

    def _remove(self, definition: ObjectDefinition, record_id: str) -> None:
        self._database.execute(f'DELETE FROM {quoted(definition.name)} WHERE "Id" = ?', (record_id,))

    def put_back(self, definition: ObjectDefinition, record_id: str, values: Mapping[str, StoredValue] | None) -> None:
        """Make a row what it was before, purged or not; None: there was none."""
        self._database.execute("DELETE FROM _purged_record WHERE entity = ? AND id = ?", (definition.name, record_id))
        if values is None:
            self._database.execute(f'DELETE FROM {quoted(definition.name)} WHERE "Id" = ?', (record_id,))
        elif self.update(definition, record_id, values) == 0:
            self.insert(definition, values)

    def clear_column(self, definition: ObjectDefinition, field: FieldDefinition) -> int:
        """Null a field of all rows, deleted ones too; returns how many had a value."""
        column = quoted(field.name)
        sql = f"UPDATE {quoted(definition.name)} SET {column} = NULL WHERE {column} IS NOT NULL"
        return self._database.execute(sql)

    def values(self, definition: ObjectDefinition, field: FieldDefinition) -> dict[str, StoredValue]:
        """Return a field's values by record id, of all rows that have one, deleted ones too."""
        column = quoted(field.name)
        sql = f'SELECT "Id", {column} FROM {quoted(definition.name)} WHERE {column} IS NOT NULL ORDER BY "Id"'
        is_checkbox = field.type == "boolean"
        return {row[0]: bool(row[1]) if is_checkbox else row[1] for row in self._database.rows(sql)}

    def set_values(
        self, definition: ObjectDefinition, field: FieldDefinition, values: Mapping[str, StoredValue]
    ) -> None:
        """Set a field of many rows by record id; nothing else of them changes."""
        self._database.execute_many(
            f'UPDATE {quoted(definition.name)} SET {quoted(field.name)} = ? WHERE "Id" = ?',
            [(value, record_id) for record_id, value in values.items()],
        )

    def set_all(self, definition: ObjectDefinition, field: FieldDefinition, value: StoredValue) -> int:
        """Set a field of all live rows; returns how many there are."""
        sql = f'UPDATE {quoted(definition.name)} SET {quoted(field.name)} = ? WHERE "IsDeleted" = 0'
        return self._database.execute(sql, (value,))

    def ids(self, definition: ObjectDefinition) -> list[str]:
        """Ids of all rows, deleted ones too, in their order."""
        return [row[0] for row in self._database.rows(f'SELECT "Id" FROM {quoted(definition.name)} ORDER BY "Id"')]

    def last_id(self, definition: ObjectDefinition) -> str:
        """Return the highest id of all rows; empty if there are none."""
        row = self._database.row(f'SELECT MAX("Id") FROM {quoted(definition.name)}')
        return row[0] or "" if row else ""

    def deleted_ids(self, definition: ObjectDefinition) -> list[str]:
        """Ids of the rows in the recycle bin, without those that are only still shown."""
        sql = (
            f'SELECT "Id" FROM {quoted(definition.name)} WHERE "IsDeleted" = 1 AND "Id" NOT IN '
            '(SELECT id FROM _still_shown WHERE entity = ?) ORDER BY "Id"'
        )
        return [row[0] for row in self._database.rows(sql, (definition.name,))]

    def purged_ids(self, definition: ObjectDefinition) -> list[str]:
        """Ids of the rows that were removed for good."""
        rows = self._database.rows("SELECT id FROM _purged_record WHERE entity = ? ORDER BY id", (definition.name,))
        return [row[0] for row in rows]

    def referring_ids(self, definition: ObjectDefinition, field: FieldDefinition, record_id: str) -> list[str]:
        """Ids of live rows whose reference names a record, in their order. The first question about a field indexes
        it."""
        if self._indexed.get((definition.name, field.name)) is not definition:
            self.tables.index_references(definition.name, field.name)
            self._indexed[definition.name, field.name] = definition
        sql = f'SELECT "Id" FROM {quoted(definition.name)} WHERE {quoted(field.name)} = ? AND "IsDeleted" = 0'
        return [row[0] for row in self._database.rows(f"{sql} ORDER BY rowid", (record_id,))]

    def exists(self, definition: ObjectDefinition, record_id: str) -> bool:
        """Return whether a live record has this id."""
        sql = f'SELECT 1 FROM {quoted(definition.name)} WHERE "Id" = ? AND "IsDeleted" = 0'
        return self._database.row(sql, (record_id,)) is not None

    def holder_of(self, definition: ObjectDefinition, field: FieldDefinition, value: str) -> str | None:
        """Return the id of the live record that has this value in a unique field (case does not count)."""
        row = self._database.row(
            f'SELECT "Id" FROM {quoted(definition.name)} WHERE {quoted(field.name)} = ? COLLATE NOCASE AND '
            f'"IsDeleted" = 0',
            (value,),
        )
        return row[0] if row else None

    def holders_of(self, definition: ObjectDefinition, field: FieldDefinition, value: StoredValue) -> list[str]:
        """Return the ids of the live records that have this value in an external id field (case does not count)."""
        if value is None:
            return []
        sql = f'SELECT "Id" FROM {quoted(definition.name)} WHERE {quoted(field.name)} = ? COLLATE NOCASE'
        return [row[0] for row in self._database.rows(f'{sql} AND "IsDeleted" = 0 ORDER BY rowid', (value,))]

    def stored(self, definition: ObjectDefinition, record_id: str) -> dict[str, StoredValue] | None:
        """Return the stored fields of a row by API name, deleted or not; None if there is no such row."""
        return self._read(definition, definition.stored_fields, record_id)

    def record(
        self, definition: ObjectDefinition, record_id: str, formulas: Mapping[str, str]
    ) -> dict[str, StoredValue] | None:
        """Like `stored`, with the computed fields, and with formulas, of which it takes the SQL by field."""
        fields = (*columns_of(definition), *(definition.fields_by_name[name] for name in formulas))
        sql = f'SELECT {_columns_sql(fields, formulas)} FROM {quoted(definition.name)} AS r WHERE "Id" = ?'
        row = self._database.row(sql, (record_id,))
        return as_record(fields, row) if row else None

    def records(
        self,
        definition: ObjectDefinition,
        *,
        include_deleted: bool,
        fields: Sequence[FieldDefinition] | None = None,
        after: str = "",
        named_like: str = "",
        formulas: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[dict[str, StoredValue]]:
        """All rows in order of Id, those after the id `after`, with memory for one block of them. `named_like`: those
        whose name holds this text (case does not count); none if the object has no names. `formulas` are read too: the
        SQL by field."""
        chosen = (
            *(fields if fields is not None else columns_of(definition)),
            *(definition.fields_by_name[name] for name in formulas),
        )
        columns = _columns_sql(chosen, formulas)
        condition = '"Id" > ?' + ("" if include_deleted else ' AND "IsDeleted" = 0')
        parameters: tuple[str, ...] = ()
        if named_like:
            name = "''" if definition.name_field is None else quoted(definition.name_field)
            condition += f" AND instr(sf_fold({name}), sf_fold(?))"
            parameters = (named_like,)
        last = after
        while True:
            rows = self._database.rows(
                f'SELECT "Id", {columns} FROM {quoted(definition.name)} AS r WHERE {condition} ORDER BY "Id" LIMIT '
                f"{_READ_BLOCK}",
                (last, *parameters),
            )
            for row in rows:
                yield as_record(chosen, row[1:])
            if len(rows) < _READ_BLOCK:
                return
            last = rows[-1][0]

    def sample_ids(self, definition: ObjectDefinition, count: int, seed: int) -> list[str]:
        """Up to `count` ids of live records spread over the table; the same for the same seed and rows."""
        table = quoted(definition.name)
        row = self._database.row(f"SELECT MAX(rowid) FROM {table}")
        last = row[0] if row and row[0] else 0
        step = max(1, last // count)
        places = json.dumps(list(range(seed % step, last + 1, step)))
        rows = self._database.rows(
            f'SELECT "Id" FROM {table} WHERE rowid IN (SELECT value FROM json_each(?)) AND "IsDeleted" = 0 '
            "ORDER BY rowid LIMIT ?",
            (places, count),
        )
        return [row[0] for row in rows]

    def count(self, definition: ObjectDefinition, *, include_deleted: bool) -> int:
        """Return the number of rows. It comes from indexes: no row is read."""
        table = quoted(definition.name)
        row = self._database.row(f"SELECT COUNT(*) FROM {table}")
        gone = None if include_deleted else self._database.row(f'SELECT COUNT(*) FROM {table} WHERE "IsDeleted" = 1')
        return (int(row[0]) if row else 0) - (int(gone[0]) if gone else 0)

    def most_rows(self, definition: ObjectDefinition) -> int:
        """Return a number that there are not more rows than; it takes no time."""
        row = self._database.row(f"SELECT MAX(rowid) FROM {quoted(definition.name)}")
        return int(row[0] or 0) if row else 0

    def _read(
        self, definition: ObjectDefinition, fields: Sequence[FieldDefinition], record_id: str
    ) -> dict[str, StoredValue] | None:
        row = self._database.row(self._by_id(definition, fields), (record_id,))
        return as_record(fields, row) if row else None

    def _by_id(self, definition: ObjectDefinition, fields: Sequence[FieldDefinition]) -> str:
        """Return the query of one row: written once for each version of an object, since most transactions ask it."""
        key = definition.name, len(fields)
        known = self._queries.get(key)
        if known is None or known[0] is not definition:
            columns = ", ".join(quoted(field.name) for field in fields)
            sql = f'SELECT {columns} FROM {quoted(definition.name)} WHERE "Id" = ?'
            known = self._queries[key] = (definition, sql)
        return known[1]


def _columns_sql(fields: Sequence[FieldDefinition], formulas: Mapping[str, str]) -> str:
    return ", ".join(formulas.get(field.name) or quoted(field.name) for field in fields)


def as_record(fields: Sequence[FieldDefinition], row: Sequence[Any]) -> dict[str, StoredValue]:
    """Return a row of the table as canonical values by API name (checkboxes come as 0/1/NULL from SQLite)."""
    return {
        field.name: value == 1 if field.type == "boolean" else value for field, value in zip(fields, row, strict=True)
    }
