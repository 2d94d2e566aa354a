"""The header at the front of every change event, read on its own so that a broken body does not matter.

The header's schema is taken from the event's schema: its `changeType` enum has grown once already (`SNAPSHOT`,
docs/salesforce-streams.md, "Change event schema"), and an enum travels as an index that means something in the writer's
schema only.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from sfcdc_assets.change_events.change_type import CHANGE_TYPE_SYMBOLS, ChangeType
from sfcdc_assets.change_events.errors import EventSchemaError, HeaderError
from sfcdc_assets.change_events.event_schema import compile_avro, header_schema

AVRO_READ_ERRORS = (EOFError, LookupError, ValueError, OverflowError, MemoryError)
"""What fastavro raises for bytes that do not fit the schema (UnicodeDecodeError is a ValueError)."""


_END_OF_TIME_MS = 253_402_300_800_000
"""The year 10000: a later commit timestamp comes from broken bytes and would not fit a table's timestamp."""

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


@dataclass(frozen=True, slots=True)
class ChangeEventHeader:
    """The header's fields under their own names, in snake_case; `commit_timestamp` is epoch ms UTC.

    The three bitmaps are as received: `nulled_fields`, `diff_fields` and `changed_fields` hold for the event's own
    schema only (see `decode_field_bitmap`).
    """

    entity_name: str
    record_ids: tuple[str, ...]
    change_type: ChangeType
    change_origin: str
    transaction_key: str
    sequence_number: int
    commit_timestamp: int
    commit_number: int
    commit_user: str
    nulled_fields: tuple[str, ...]
    diff_fields: tuple[str, ...]
    changed_fields: tuple[str, ...]

    @property
    def is_gap(self) -> bool:
        """Whether this is a gap or overflow event: no field values, the records have to be read back."""
        return self.change_type.is_gap


def read_header(payload: bytes, schema: Mapping[str, Any] | None = None) -> ChangeEventHeader:
    """The header of one event; the bytes after it are not looked at.

    `schema` is the event's schema; without one the newest known header is assumed, which reads older ones as well.
    Raises `HeaderError` for bytes that hold no header, and for a schema without one.
    """
    try:
        record = _DEFAULT_HEADER if schema is None else header_schema(schema)
        avro_schema, symbols = _compiled(json.dumps(record))
    except EventSchemaError as error:
        raise HeaderError(f"the schema it came with is not a change event's: {error.problem}") from None
    try:
        values: Any = fastavro.schemaless_reader(io.BytesIO(payload), avro_schema)
    except AVRO_READ_ERRORS as error:
        raise HeaderError(f"its bytes do not fit the header's schema ({type(error).__name__}: {error})") from None
    return header_from_values(values, symbols)


def plain_change_type(record: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A copy of a header's record schema in which `changeType` is an int, and the symbols it stood for.

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
    """The header from its decoded fields, `changeType` being an index into `symbols`. Raises `HeaderError`."""
    index = values["changeType"]
    if not 0 <= index < len(symbols):
        raise HeaderError(f"changeType {index} is not one of the schema's {len(symbols)} symbols")
    symbol = symbols[index]
    if not 0 <= values["commitTimestamp"] < _END_OF_TIME_MS or not -(2**31) <= values["sequenceNumber"] < 2**31:
        raise HeaderError(
            f"commitTimestamp {values['commitTimestamp']} or sequenceNumber {values['sequenceNumber']} is no such thing"
        )
    return ChangeEventHeader(
        values["entityName"],
        tuple(values["recordIds"]),
        _CHANGE_TYPES.get(symbol, ChangeType.UNKNOWN),
        values["changeOrigin"],
        values["transactionKey"],
        values["sequenceNumber"],
        values["commitTimestamp"],
        values["commitNumber"],
        values["commitUser"],
        tuple(values["nulledFields"]),
        tuple(values["diffFields"]),
        tuple(values["changedFields"]),
    )


_CHANGE_TYPES: dict[str, ChangeType] = {member.value: member for member in ChangeType}


@lru_cache(maxsize=256)
def _compiled(record_json: str) -> tuple[Any, tuple[str, ...]]:
    record, symbols = plain_change_type(json.loads(record_json))
    return compile_avro(record), symbols
