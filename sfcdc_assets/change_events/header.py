"""The header at the front of every change event in Avro, read on its own so that a broken body does not matter.

The header's schema is taken from the event's schema: its `changeType` enum has grown once already (`SNAPSHOT`,
docs/salesforce-streams.md, "Change event schema"), and an enum travels as an index that means something in the writer's
schema only.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import fastavro

from sfcdc_assets.change_events.change_event import ChangeEventHeader, header_of
from sfcdc_assets.change_events.change_type import CHANGE_TYPE_SYMBOLS
from sfcdc_assets.change_events.errors import EventSchemaError, HeaderError
from sfcdc_assets.change_events.event_schema import compile_avro, header_schema

AVRO_READ_ERRORS = (EOFError, LookupError, ValueError, OverflowError, MemoryError)
"""What fastavro raises for bytes that do not fit the schema (UnicodeDecodeError is a ValueError)."""

_SOURCE = re.compile(" from <_io.BytesIO object at 0x[0-9a-f]+>")
_TEXTS = {"type": "array", "items": "string"}
_DEFAULT_HEADER: dict[str, Any] = {
    "type": "record",
    "name": "ChangeEventHeader",
    "fields": [
        {"name": "entityName", "type": "string"},
        {"name": "recordIds", "type": _TEXTS},
        {"name": "changeType", "type": {"type": "enum", "name": "ChangeType", "symbols": list(CHANGE_TYPE_SYMBOLS)}},
        {"name": "changeOrigin", "type": "string"},
        {"name": "transactionKey", "type": "string"},
        {"name": "sequenceNumber", "type": "int"},
        {"name": "commitTimestamp", "type": "long"},
        {"name": "commitNumber", "type": "long"},
        {"name": "commitUser", "type": "string"},
        {"name": "nulledFields", "type": _TEXTS},
        {"name": "diffFields", "type": _TEXTS},
        {"name": "changedFields", "type": _TEXTS},
    ],
}
_FIELDS = tuple(field["name"] for field in _DEFAULT_HEADER["fields"])


def read_header(payload: bytes, schema: Mapping[str, Any] | None = None) -> ChangeEventHeader:
    """Return the header of one event; the bytes after it are not looked at.

    `schema` is the event's schema; without one the newest known header is assumed, which reads older ones as well.
    Raises `HeaderError` for bytes that hold no header, and for a schema without one.
    """
    try:
        avro_schema, symbols = _compiled(_Same(header_record(schema)))
    except EventSchemaError as error:
        raise HeaderError(f"the schema it came with is not a change event's: {error.problem}") from None
    try:
        values: Any = fastavro.schemaless_reader(io.BytesIO(payload), avro_schema)
    except AVRO_READ_ERRORS as error:
        raise HeaderError(f"its bytes do not fit the header's schema ({error_text(error)})") from None
    return header_from_values(values, symbols)


def header_record(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the header's schema within an event's; the newest known header where that is not known. Raises
    `EventSchemaError`."""
    return _DEFAULT_HEADER if schema is None else header_schema(schema)


def error_text(error: Exception) -> str:
    """One of `AVRO_READ_ERRORS` in words that are the same each time: fastavro names the object it read from, too."""
    return f"{type(error).__name__}: {_SOURCE.sub('', str(error))}"


def plain_change_type(record: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a copy of a header's record schema in which `changeType` is an int, and the symbols it stood for.

    An enum and an int have the same bytes. Read as an enum, an index of -1 from broken bytes would pass for the last
    symbol (fastavro indexes a Python list); read as an int it can be checked.
    """
    present = {field.get("name") for field in record.get("fields", ())}
    missing = [name for name in _FIELDS if name not in present]
    if missing:
        raise EventSchemaError(f"its header has no field {missing[0]}")
    symbols: tuple[str, ...] = ()
    fields = []
    for field in record["fields"]:
        if field["name"] == "changeType":
            if not isinstance(field["type"], Mapping) or "symbols" not in field["type"]:
                raise EventSchemaError("its header's changeType is not an enum")
            symbols = tuple(field["type"]["symbols"])
            fields.append({"name": "changeType", "type": "int"})
        else:
            fields.append(field)
    return {**record, "fields": fields}, symbols


def header_from_values(values: Mapping[str, Any], symbols: Sequence[str]) -> ChangeEventHeader:
    """Return the header from its decoded fields, `changeType` being an index into `symbols`. Raises `HeaderError`."""
    index = values["changeType"]
    if not 0 <= index < len(symbols):
        raise HeaderError(f"changeType {index} is not one of the schema's {len(symbols)} symbols")
    return header_of(values, symbols[index])


class _Same:
    """A header's schema as the key of a cache: equal to itself alone, for to compare schemas costs more than to read a
    header. It is held on to, so that no other comes to be in its place."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record

    def __hash__(self) -> int:
        return id(self.record)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.record is other.record


@lru_cache(maxsize=256)
def _compiled(of: _Same) -> tuple[Any, tuple[str, ...]]:
    record, symbols = plain_change_type(of.record)
    return compile_avro(record), symbols
