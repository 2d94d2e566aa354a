"""SQL as text: quoted names and values, and the types of columns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

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
    """An identifier in quotes, whatever its characters."""
    return '"' + identifier.replace('"', '""') + '"'


def value(text: str | None) -> str:
    """A text as a literal."""
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def values(texts: Iterable[str]) -> str:
    """A list of literals."""
    return "[" + ", ".join(map(value, texts)) + "]"


def sql_type(arrow: pa.DataType) -> str:
    """DuckDB's name of a type."""
    if pa.types.is_list(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    if pa.types.is_map(arrow):
        return f"MAP({sql_type(arrow.key_type)}, {sql_type(arrow.item_type)})"
    return _TYPES.get(arrow, "VARCHAR")
