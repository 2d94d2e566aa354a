"""The SQLite table of each object: one typed column a field. What is computed from a record's own fields (person names)
is a generated column."""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.org.database import Database, quoted

_SQL_TYPES = {
    "anyType": "",
    "boolean": "INTEGER",
    "int": "INTEGER",
    "datetime": "INTEGER",
    "double": "REAL",
    "currency": "REAL",
    "percent": "REAL",
}


class ObjectTables:
    """Tables and their indexes. Callers hold the database's lock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, definition: ObjectDefinition) -> None:
        """Make the object's table if it is not there."""
        columns = ", ".join(_column_sql(field) for field in columns_of(definition))
        deleted = "" if definition.deletable else ', "IsDeleted" INTEGER NOT NULL DEFAULT 0'
        table = quoted(definition.name)
        self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}{deleted})")
        if definition.stamp is not None:
            # As pollers read it: by stamp and id.
            name = quoted(f"{definition.name}.{definition.stamp}")
            stamp = quoted(definition.stamp)
            self._database.execute(f'CREATE INDEX IF NOT EXISTS {name} ON {table} ({stamp}, "Id")')
        self._database.execute(
            f'CREATE INDEX IF NOT EXISTS {quoted(definition.name + ".deleted")} ON {table} ("IsDeleted") '
            'WHERE "IsDeleted" = 1'
        )
        for field in definition.stored_fields:
            if field.unique:
                self._index(definition.name, field.name, "NOCASE")

    def index_references(self, entity: str, field: str) -> None:
        """Make look-ups of child records by a reference fast (roll-ups need it)."""
        self._index(entity, field, "BINARY")

    def replace(self, old: ObjectDefinition, new: ObjectDefinition, renamed: Mapping[str, str]) -> None:
        """Give an existing table the columns of a new definition; rows keep what both have. `renamed`: old name ->
        new name."""
        new_name = {field.name: renamed.get(field.name, field.name) for field in old.stored_fields}
        # What was no checkbox may hold nulls, which a checkbox cannot.
        become = {field.name for field in new.stored_fields if field.type == "boolean"}
        become -= {new_name[field.name] for field in old.stored_fields if field.type == "boolean"}
        kept = {field.name for field in new.stored_fields} - become
        pairs = [(source, target) for source, target in new_name.items() if target in kept]
        if not old.deletable and not new.deletable:
            pairs.append(("IsDeleted", "IsDeleted"))
        old_table = quoted("_old_" + old.name)
        self._database.execute(f"ALTER TABLE {quoted(old.name)} RENAME TO {old_table}")
        for (index,) in self._database.rows(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
            ("_old_" + old.name,),
        ):
            self._database.execute(f"DROP INDEX {quoted(index)}")
        self.create(new)
        self._database.execute(
            f"INSERT INTO {quoted(new.name)} ({', '.join(quoted(target) for _, target in pairs)}) "
            f"SELECT {', '.join(quoted(source) for source, _ in pairs)} FROM {old_table} ORDER BY rowid"
        )
        self._database.execute(f"DROP TABLE {old_table}")

    def _index(self, entity: str, column: str, collation: str) -> None:
        name = quoted(f"{entity}.{column}")
        self._database.execute(
            f"CREATE INDEX IF NOT EXISTS {name} ON {quoted(entity)} ({quoted(column)} COLLATE {collation})"
        )


def columns_of(definition: ObjectDefinition) -> tuple[FieldDefinition, ...]:
    """Return the fields that are columns of the table: stored and computed ones; addresses and locations are made of
    columns."""
    return tuple(field for field in definition.fields if field.is_stored or field.sql_expression is not None)


def _column_sql(field: FieldDefinition) -> str:
    sql = f"{quoted(field.name)} {_SQL_TYPES.get(field.type, 'TEXT')}"
    if field.name == "Id":
        return sql + " PRIMARY KEY NOT NULL"
    if field.sql_expression is not None:
        return f"{sql} GENERATED ALWAYS AS ({field.sql_expression}) VIRTUAL"
    if field.type == "boolean":
        return f"{sql} NOT NULL DEFAULT {int(bool(field.default))}"
    return sql
