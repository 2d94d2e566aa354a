"""SQL as text: quoted names and values, the types of columns, and one version of a table as a SELECT over exactly
its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pyarrow as pa

from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.readable_table import FilesOfPartition, ReadableTable

_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMPTZ",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
}
"""The types that docs/tables.md names."""


def name(identifier: str) -> str:
    """Write an identifier in quotes, whatever its characters."""
    return '"' + identifier.replace('"', '""') + '"'


def value(text: str | None) -> str:
    """Write a text as a literal."""
    return "NULL" if text is None else literal(text)


def values(texts: Iterable[str]) -> str:
    """Write a list of literals."""
    return "[" + ", ".join(map(value, texts)) + "]"


def sql_type(arrow: pa.DataType) -> str:
    """DuckDB's name of a type."""
    if pa.types.is_list(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        return f"STRUCT({', '.join(f'{name(field.name)} {sql_type(field.type)}' for field in arrow)})"
    if pa.types.is_map(arrow):
        return f"MAP({sql_type(arrow.key_type)}, {sql_type(arrow.item_type)})"
    return _TYPES.get(arrow, "VARCHAR")


_OF_A_PATTERN = re.compile(r"[*?\[]")

Location = Callable[[str, str], str]
"""A table's name and the path of one of its files -> where DuckDB finds the file."""

Rows = Callable[[ReadableTable], str]
"""A table -> the SELECT of its rows that count: of exactly the files of one version (`relation`), or of those that the
newest cut has when it is asked (`live_views`)."""


def relation(table: ReadableTable, location: Location) -> str:
    """Return the rows that count, with the columns in the table's order."""
    parts = [no_row(table), *(_part(table.name, each, location) for each in table.files)]
    chosen = ", ".join(map(name, table.schema.names))
    where = f" WHERE {table.condition}" if table.condition else ""
    return f"SELECT {chosen} FROM ({' UNION ALL BY NAME '.join(parts)}){where}"


def no_row(table: ReadableTable) -> str:
    """Return a SELECT of no row, with all columns and their types: a file may lack some."""
    columns = ", ".join(f"CAST(NULL AS {sql_type(field.type)}) AS {name(field.name)}" for field in table.schema)
    return f"SELECT {columns} WHERE false"


def _part(table: str, files: FilesOfPartition, location: Location) -> str:
    found = values(literally(location(table, path)) for path in files.paths)
    read = f"read_parquet({found}, union_by_name = true, hive_partitioning = false)"
    constants = "".join(f", {value(text)} AS {name(column)}" for column, text in files.values.items())
    return f"SELECT *{constants} FROM {read}"


def literally(path: str) -> str:
    """Return a path in which DuckDB finds no pattern: a folder may be called `[old]`."""
    return _OF_A_PATTERN.sub(lambda found: f"[{found.group()}]", path)
