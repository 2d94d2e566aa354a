"""From a value as an event carries it to a value as a table's column holds it.

Avro alone does not distinguish a date from a time (both are longs); the field's doc does (docs/salesforce-streams.md,
"Field types"). A table's column may also differ from an older event's field, when the field's type was changed in the
org: a value is converted where that loses nothing, else it is refused with a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import StrEnum
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.change_events.field_types import doc_type
from sfcdc_assets.change_events.hashed_value import hashing
from sfcdc_assets.change_events.type_conversion import CellValue, convert, int_of
from sfcdc_assets.salesforce.record_id import to_18_characters

Converter = Callable[[Any], CellValue]

DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)
# Years 1 to 9999: outside of them a value is broken bytes, and Python, Arrow and Spark cannot all show it.
_FIRST_MS = (date.min - _EPOCH).days * DAY_MS
_END_MS = ((date.max - _EPOCH).days + 1) * DAY_MS


class SourceKind(StrEnum):
    """What an event's value is."""

    TEXT = "text"
    REFERENCE = "reference"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "long"
    """A whole number of 64 bits that is no time: describe's type `long`, which tables hold as a text."""
    NUMBER = "number"
    DATE = "date"
    """Epoch ms at 00:00 UTC."""
    DATETIME = "datetime"
    """Epoch ms, UTC."""
    TIME = "time"
    """Ms since midnight."""
    LIST = "list"
    OTHER = "other"


TIMES = frozenset({SourceKind.DATETIME, SourceKind.DATE, SourceKind.TIME})
"""The kinds that are the same long in Avro; their names are those of describe."""
_KIND_OF_LONG = {kind.value: kind for kind in TIMES}
_KIND_OF_AVRO = {
    "string": SourceKind.TEXT,
    "enum": SourceKind.TEXT,
    "boolean": SourceKind.BOOLEAN,
    "int": SourceKind.INTEGER,
    "long": SourceKind.LONG,
    "double": SourceKind.NUMBER,
    "float": SourceKind.NUMBER,
    "array": SourceKind.LIST,
}


def source_kind(leaf: SchemaField, column: Column) -> SourceKind:
    """Return what the field's values are.

    Of a long the column says it, and its doc only if the column is no time: a field that is made a time of another kind
    keeps the schema's id, which depends on no doc, so the doc may be that of before or after.
    """
    type_of_doc = doc_type(leaf.doc_type)
    name = type_of_doc.name if type_of_doc else column.salesforce_type
    if leaf.scalar == "long":
        return _KIND_OF_LONG.get(column.salesforce_type) or _KIND_OF_LONG.get(name) or SourceKind.LONG
    # A reference whose doc says otherwise (`ExternalId`) holds the key of another system, however long that is.
    if leaf.scalar == "string" and name == "reference" and (type_of_doc or not leaf.doc_type):
        return SourceKind.REFERENCE
    return _KIND_OF_AVRO.get(leaf.scalar or "", SourceKind.OTHER)


def is_of_type(leaf: SchemaField, type_: ColumnType, salesforce_type: str) -> bool:
    """Return whether a field of this type has a schema like this one's, as far as schemas of one id agree."""
    if leaf.scalar == "long":
        return salesforce_type in {*_KIND_OF_LONG, SourceKind.LONG.value}
    kind = _KIND_OF_AVRO.get(leaf.scalar or "")
    return kind is not None and _READERS[kind][0] is type_ and salesforce_type not in _KIND_OF_LONG


def converter(leaf: SchemaField, column: Column) -> Converter:
    """Return the function for one field and one column; it takes no null and raises `ValueError` for what does not
    fit."""
    found = _READERS.get(source_kind(leaf, column))
    if found is None:
        return _refuser(leaf, column)
    own, read = found
    wanted = column.plain_type
    converted = read if own is wanted else lambda value: convert(read(value), own, wanted)
    return converted if column.hash_key is None else hashing(column, converted)


def kind_without_conversion(leaf: SchemaField, column: Column) -> SourceKind | None:
    """Return the kind of the field's values where the column holds them as what they are; None where they are converted
    to another type or hashed, or do not fit."""
    kind = source_kind(leaf, column)
    own = _READERS[kind][0] if kind in _READERS else None
    return kind if own is column.type and column.hash_key is None else None


def in_calendar(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which of these epoch ms are in the years 1 to 9999."""
    return (values >= _FIRST_MS) & (values < _END_MS)


def is_in_calendar(value: int) -> bool:
    """Return whether a time (epoch ms) is in the years 1 to 9999."""
    return _FIRST_MS <= value < _END_MS


def _refuser(leaf: SchemaField, column: Column) -> Converter:
    def refuse(_value: object) -> CellValue:
        raise ValueError(f"a {leaf.scalar or 'record'} does not fit a column of type {column.plain_type}")

    return refuse


def _same(value: Any) -> CellValue:
    same: CellValue = value
    return same


def _finite(value: float) -> float:
    if not isfinite(value):
        raise ValueError("it is no finite number")
    return value


def _text(value: str) -> CellValue:
    # Salesforce cannot store an empty text; bulk files and REST have null for it
    # (docs/salesforce-streams.md, "Bulk API 2.0 queries").
    return value or None


def _in_calendar(value: int) -> int:
    if not is_in_calendar(value):
        raise ValueError(f"{value} ms is outside of the years 1 to 9999")
    return value


def _days(value: int) -> int:
    if value % DAY_MS:
        raise ValueError(f"{value} ms is no date: the time of day would be lost")
    return _in_calendar(value) // DAY_MS


def _microseconds(value: int) -> int:
    return _in_calendar(value) * 1000


def _time_text(value: int) -> str:
    if not 0 <= value < DAY_MS:
        raise ValueError(f"{value} ms is not a time of day")
    seconds, milliseconds = divmod(value, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}"


def _list_text(value: list[Any]) -> CellValue:
    return ";".join(str(item) for item in value) or None


_READERS: dict[SourceKind, tuple[ColumnType, Converter]] = {
    SourceKind.TEXT: (ColumnType.STRING, _text),
    SourceKind.REFERENCE: (ColumnType.STRING, lambda value: to_18_characters(value) or None),
    SourceKind.BOOLEAN: (ColumnType.BOOLEAN, _same),
    SourceKind.INTEGER: (ColumnType.INT, int_of),
    SourceKind.LONG: (ColumnType.STRING, str),
    SourceKind.NUMBER: (ColumnType.DOUBLE, _finite),
    SourceKind.DATE: (ColumnType.DATE, _days),
    SourceKind.DATETIME: (ColumnType.TIMESTAMP, _microseconds),
    SourceKind.TIME: (ColumnType.STRING, _time_text),
    SourceKind.LIST: (ColumnType.STRING, _list_text),
}
"""What a kind of value is read as: the type that is its own, and how."""
