"""Events without the records that were erased.

One event may name many records, whose values are the same. Such an event goes on without the erased one: its payload
becomes what the org would have sent for the others alone. Of an event that named no other the header stays, without the
record's id and without a payload, so that positions have no hole and whoever applies it finds nobody named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.payload_form import JSON, form_of, header_of_payload

HEADER, IDS = "ChangeEventHeader", "recordIds"

IsErased = Callable[[str, datetime], bool]
"""Whether an event that names this record, committed at this time, is kept without it."""


def without_records(payload: bytes, gone: Collection[str]) -> bytes | None:
    """Return a change event's payload, Avro or JSON, without these record ids in its header; None where no other is
    named, or where its header has a form of which that cannot be said."""
    try:
        left = tuple(each for each in header_of_payload(payload).record_ids if each not in gone)
        if not left:
            return None
        written = _json(payload, left) if form_of(payload) is JSON else _avro(payload, left)
        return written if header_of_payload(written).record_ids == left else None
    except (HeaderError, IndexError, KeyError, TypeError, ValueError):
        return None


def erase_from_events(rows: pa.Table, is_erased: IsErased) -> pa.Table:
    """Return rows of `raw_events` without the records that are erased; the very table where it names none."""
    named, times = rows["record_ids"].to_pylist(), rows["commit_timestamp"].to_pylist()
    gone = [{each for each in ids or () if is_erased(each, at)} for ids, at in zip(named, times, strict=True)]
    return erase_ids(rows, gone)


def erase_ids(rows: pa.Table, gone: Sequence[Collection[str]]) -> pa.Table:
    """Return rows of `raw_events`, each without some of its record ids; the very table where none goes."""
    if not any(gone):
        return rows
    named, payloads = rows["record_ids"].to_pylist(), rows["payload"].to_pylist()
    for number, erased in enumerate(gone):
        if erased:
            named[number] = [each for each in named[number] if each not in erased]
            payload = payloads[number]
            payloads[number] = without_records(payload, erased) if payload is not None and named[number] else None
    return _with(_with(rows, "record_ids", named), "payload", payloads)


def _with(rows: pa.Table, name: str, values: list[Any]) -> pa.Table:
    number = rows.schema.get_field_index(name)
    field = rows.schema.field(number)
    return rows.set_column(number, field, pa.array(values, field.type))


def _json(payload: bytes, left: Sequence[str]) -> bytes:
    values = json.loads(payload)
    values[HEADER][IDS] = list(left)
    return json.dumps(values, separators=(",", ":")).encode()


def _avro(payload: bytes, left: Sequence[str]) -> bytes:
    """Write the array of ids again. The header is the first of an event, and in it the entity's name, then that array:
    blocks of items, each with its count, until a count of 0."""
    size, start = _read_long(payload, 0)
    start += size
    count, end = _read_long(payload, start)
    while count:
        if count < 0:
            count, (_, end) = -count, _read_long(payload, end)
        for _ in range(count):
            size, end = _read_long(payload, end)
            end += size
        count, end = _read_long(payload, end)
    texts = [each.encode() for each in left]
    array = _long(len(texts)) + b"".join(_long(len(each)) + each for each in texts) + _long(0)
    return payload[:start] + array + payload[end:]


def _read_long(payload: bytes, at: int) -> tuple[int, int]:
    """Return a number of Avro, and where it ends."""
    found = shift = 0
    while True:
        byte = payload[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7


def _long(number: int) -> bytes:
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
