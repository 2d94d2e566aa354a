"""Typed events -> rows of their channel's table, each with its position.

The columns of a table grow with what events bring, and none is ever changed: a field whose type was changed in the org
goes on in a column beside the old one, `<Field>__<type>`, unless the old column holds all values of the new type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.batch.header_columns import UTC_TIMESTAMP
from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.change_events.type_conversion import CellValue, convert, widens
from sfcdc_assets.event_channels.typed_event import TypedEvent, event_key
from sfcdc_assets.runtime.foreign_text import unicode_text
from sfcdc_assets.streams.delivered_event import DeliveredEvent

EVENT_COLUMNS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("replay_id", pa.binary()),
        ("event_id", pa.string()),
        ("event_key", pa.string()),
        ("schema_id", pa.string()),
        ("created_date", UTC_TIMESTAMP),
        ("received_at", UTC_TIMESTAMP),
    ]
)
"""The first columns of every such table. `event_key`: what the event is known again by, a digest of its id and, of
platform events, its values (publishers may give several events one id); `created_date`: when Salesforce made the event,
which for platform events is the time of publishing; `received_at`: when it was delivered, by our clock."""

KEPT_COLUMNS = pa.schema([("_rescued_data", pa.string()), ("_problem", pa.string()), ("_delivered", pa.binary())])
"""What nothing is lost by: values that fit no column, as JSON; why; and the event as it was delivered."""

_TYPES = {forms.arrow: column_type for column_type, forms in FORMS.items()}


def table_schema(own: pa.Schema) -> pa.Schema:
    """Return the schema of a new table whose kind has columns of its own."""
    return pa.schema([*EVENT_COLUMNS, *own, *KEPT_COLUMNS])


def missing_columns(schema: pa.Schema, events: Sequence[TypedEvent]) -> list[pa.Field]:
    """Columns that a table needs for these events and does not have, in the order of the events' fields."""
    missing: dict[str, pa.Field] = {}
    for column in dict.fromkeys(column for event in events for column in event.values):
        grown = pa.schema([*schema, *missing.values()])
        name = column_of(grown, column)
        if name not in grown.names:
            (field,) = arrow_schema([column])
            missing[name] = field.with_name(name)
    return list(missing.values())


def column_of(schema: pa.Schema, column: Column) -> str:
    """Return the name of the table's column that a field's values go to; perhaps of one that the table does not have
    yet.

    A field with the name of a column that is not a field's is called `<Field>__field`. Delta takes names that differ by
    case for one.
    """
    present = {name.lower(): name for name in schema.names}
    fixed = {name.lower() for name in (*EVENT_COLUMNS.names, *KEPT_COLUMNS.names)}
    name = column.name
    if name.lower() in fixed or _is_own(schema, present.get(name.lower())):
        name = f"{name}__field"
    found = present.get(name.lower())
    if found is None or _holds(schema.field(found), column.type):
        return found or name
    beside = f"{name}__{column.type.value}"
    return str(present.get(beside.lower(), beside))


def event_rows(
    channel: str, first: int, events: Sequence[DeliveredEvent], typed: Sequence[TypedEvent], schema: pa.Schema
) -> pa.Table:
    """Return the rows of events that come after one another, the first at position `first`; the table has all columns.

    Whatever is in an event keeps none of the others from the table: one of which a value does not fit its column,
    though its reader thought so, has only its bytes, and says why.
    """
    try:
        return _rows(channel, first, events, typed, schema)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        if len(events) > 1:
            half = len(events) // 2
            parts = (
                event_rows(channel, first + part.start, events[part], typed[part], schema)
                for part in (slice(0, half), slice(half, len(events)))
            )
            return pa.concat_tables(parts)
        (each,) = typed
        if not (each.values or each.own or each.rescued or each.created_ms):
            raise
        problem = f"its values do not fit the table ({type(error).__name__})"
        bare = TypedEvent(problem=problem, keeps_bytes=each.keeps_bytes, identity=each.identity)
        return _rows(channel, first, events, [bare], schema)


def _rows(
    channel: str, first: int, events: Sequence[DeliveredEvent], typed: Sequence[TypedEvent], schema: pa.Schema
) -> pa.Table:
    count = len(events)
    places: dict[Column, str] = {}
    cells: dict[str, list[CellValue]] = {}
    for number, event in enumerate(typed):
        for column, value in event.values.items():
            name = places.get(column) or places.setdefault(column, column_of(schema, column))
            converted = convert(value, column.type, _TYPES[schema.field(name).type])
            cells.setdefault(name, [None] * count)[number] = _plain(converted)
    columns: dict[str, Any] = {
        "channel": [channel] * count,
        "position": range(first, first + count),
        "replay_id": [event.replay_id for event in events],
        "event_id": [_plain(event.event_id) for event in events],
        "event_key": [event_key(event, each) for event, each in zip(events, typed, strict=True)],
        "schema_id": [_plain(event.schema_id) or None for event in events],
        "created_date": [None if each.created_ms is None else each.created_ms * 1000 for each in typed],
        "received_at": [event.received_at_ms * 1000 for event in events],
        "_rescued_data": [_plain(_json(each.rescued)) for each in typed],
        "_problem": [_plain(each.problem) for each in typed],
        "_delivered": [event.payload if each.keeps_bytes else None for event, each in zip(events, typed, strict=True)],
    }
    for name in dict.fromkeys(name for each in typed for name in each.own):
        columns[name] = [_plain(each.own.get(name)) for each in typed]
    return pa.table([_array(field, columns.get(field.name), cells.get(field.name), count) for field in schema], schema)


def _array(field: pa.Field, values: Any, cells: list[CellValue] | None, count: int) -> pa.Array:
    if cells is not None:
        return pa.array(cells, FORMS[_TYPES[field.type]].cell).cast(field.type)
    if values is None:
        return pa.nulls(count, field.type)
    return pa.array(values, field.type)


def _holds(field: pa.Field, wanted: ColumnType) -> bool:
    """Return whether a column holds every value of a type."""
    present = _TYPES.get(field.type)
    return present is not None and (present is wanted or widens(wanted, present))


def _is_own(schema: pa.Schema, name: str | None) -> bool:
    """Return whether a column is one of its kind's own: columns of fields say of which type these are in Salesforce."""
    return name is not None and not schema.field(name).metadata


def _json(rescued: Mapping[str, Any]) -> str | None:
    if not rescued:
        return None
    try:
        return json.dumps(rescued, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError):
        return json.dumps({name: _json_value(value) for name, value in sorted(rescued.items())}, ensure_ascii=False)
    except RecursionError:
        return json.dumps(dict.fromkeys(sorted(rescued), "nested too deeply"), ensure_ascii=False)


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it; as a text what JSON has no form for, such as a number that is none, or bytes."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return repr(value) if isinstance(value, float | bytes) else json.dumps(value, default=repr)
    return value


def _plain(value: Any) -> Any:
    """Return a text, or texts, with what UTF-8 cannot hold (half a surrogate pair) replaced; `_delivered` has it."""
    if isinstance(value, str):
        return unicode_text(value)
    return [_plain(each) for each in value] if isinstance(value, list) else value
