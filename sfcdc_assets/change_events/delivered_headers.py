"""The headers of delivered events: many at once where that can be done, the others one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.batch.header_columns import HEADER_COLUMNS, header_row
from sfcdc_assets.change_events.errors import EventSchemaError, HeaderError
from sfcdc_assets.change_events.header import header_record
from sfcdc_assets.change_events.payload_form import PayloadForm, form_of
from sfcdc_assets.salesforce.channel_members import entity_of_change_event
from sfcdc_assets.streams.delivered_event import DeliveredEvent

FEWEST_AT_ONCE = 16
"""Fewer headers are read sooner one by one."""

Schema = Mapping[str, Any] | None


def read_headers(
    events: Sequence[DeliveredEvent], payloads: pa.Array, schema_of: Callable[[str], Schema]
) -> tuple[pa.Table, list[str | None]]:
    """`HEADER_COLUMNS` of the events whose header can be read, in their order; and for each event why its header cannot
    be read, None where it can.

    `payloads`: those of the events; `schema_of`: the schema of an id, None where it is not known.
    """
    errors: list[str | None] = [None] * len(events)
    parts: list[pa.Table] = []
    order: list[np.ndarray] = []
    entities = {schema_id: _entity_of(schema_of(schema_id)) for schema_id in {event.schema_id for event in events}}
    for form, schema, numbers in _groups(events, schema_of):
        left = numbers
        many = _many(form, schema) if len(numbers) >= FEWEST_AT_ONCE else None
        if many is not None:
            taken, read = many.read(payloads if len(numbers) == len(events) else payloads.take(pa.array(numbers)))
            wanted = pa.array([entities[events[number].schema_id] for number in numbers[taken].tolist()], pa.string())
            agree = pc.fill_null(pc.equal(read["entity_name"], wanted), fill_value=True)
            taken[np.flatnonzero(taken)] = agree.to_numpy()
            parts.append(read.filter(agree))
            order.append(numbers[taken])
            left = numbers[~taken]
        rows, of_rows = [], []
        for number in left.tolist():
            event = events[number]
            try:
                header = form.read_header(event.payload, schema_of(event.schema_id))
                if entities[event.schema_id] not in (None, header.entity_name):
                    raise HeaderError(f"its entityName is not {entities[event.schema_id]}, whose schema it names")
            except HeaderError as error:
                errors[number] = str(error)
            else:
                rows.append(header_row(header))
                of_rows.append(number)
        parts.append(pa.Table.from_pylist(rows, schema=HEADER_COLUMNS))
        order.append(np.array(of_rows, np.int64))
    read = pa.concat_tables([HEADER_COLUMNS.empty_table(), *parts])
    ordered = np.concatenate([np.empty(0, np.int64), *order])
    if (np.diff(ordered) < 0).any():
        read = read.take(pa.array(np.argsort(ordered)))
    return read, errors


def _groups(
    events: Sequence[DeliveredEvent], schema_of: Callable[[str], Schema]
) -> list[tuple[PayloadForm, Schema, np.ndarray]]:
    """Return the events whose headers have the same form and schema, which those of most entities have."""
    known: dict[tuple[str, str], int] = {}
    groups: list[tuple[PayloadForm, Schema]] = []
    group_of: dict[bytes, dict[str, int]] = {}
    schemas = {schema_id: schema_of(schema_id) for schema_id in {event.schema_id for event in events}}
    keys = {schema_id: _key(schema) for schema_id, schema in schemas.items()}
    for first in {event.payload[:1] for event in events}:
        form, group_of[first] = form_of(first), {}
        for schema_id, schema in schemas.items():
            group_of[first][schema_id] = known.setdefault((form.name, keys[schema_id]), len(groups))
            if group_of[first][schema_id] == len(groups):
                groups.append((form, schema))
    if len(groups) == 1:
        return [(*groups[0], np.arange(len(events)))]
    numbers = np.array([group_of[event.payload[:1]][event.schema_id] for event in events], np.int64)
    return [(form, schema, np.flatnonzero(numbers == group)) for group, (form, schema) in enumerate(groups)]


def _entity_of(schema: Schema) -> str | None:
    """Return the object whose events have a schema; None where that is not known."""
    try:
        return None if schema is None else entity_of_change_event(str(schema.get("name")))
    except ValueError:
        return None


def _key(schema: Schema) -> str:
    try:
        return json.dumps(header_record(schema))
    except EventSchemaError:
        return ""


def _many(form: PayloadForm, schema: Schema) -> Any:
    try:
        return form.many_headers(schema)
    except EventSchemaError:
        return None  # which the reading of each event will say
