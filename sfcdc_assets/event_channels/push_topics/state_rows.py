"""Rows of `push_topic_state/<Topic>`: what is known of each record, and the rows that notifications are folded from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import SALESFORCE_TYPE_METADATA
from sfcdc_assets.event_channels.push_topics.known_record import Known, Stamp, Standing, join
from sfcdc_assets.runtime.times import epoch_ms, utc_or_none
from sfcdc_assets.salesforce.object_description import COMPOUND_TYPES

ID = "Id"
CARRIED = "carried_fields"
"""Column of `push_topic_events` with the names of the fields that a notification has: the others are unknown, not
null."""
_UTC = pa.timestamp("us", "UTC")

STATE_COLUMNS = pa.schema(
    [
        ("_is_deleted", pa.bool_()),
        ("_left_filter_at", _UTC),
        ("_event_type", pa.string()),
        ("_created_date", _UTC),
        ("_replay_id", pa.binary()),
        ("_position", pa.int64()),
        ("_read_at", _UTC),
        ("_stamps", pa.string()),
    ]
)
"""The columns after the fields. `_event_type` to `_position`: the record's newest notification, null without one;
`_read_at`: when the newest values that are from a read of the query were read; `_stamps`: of which observation the
standing and each value is, so that one that comes late changes what it should and nothing else (`Stamp`)."""


def field_columns(schema: pa.Schema) -> list[pa.Field]:
    """Return the columns of a table of events that are fields of the object: they say of which type these are."""
    return [field for field in schema if SALESFORCE_TYPE_METADATA in (field.metadata or {})]


def is_compound(field: pa.Field) -> bool:
    """Return whether a column holds addresses or places, as JSON: notifications and queries write these differently."""
    return (field.metadata or {}).get(SALESFORCE_TYPE_METADATA, b"").decode() in COMPOUND_TYPES


def state_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    """Return the schema of a table with these field columns, `Id` first: it is there before any record is known."""
    own = next((field for field in fields if field.name == ID), pa.field(ID, pa.string()))
    return pa.schema([own, *(field for field in fields if field.name != ID), *STATE_COLUMNS])


def known_of_events(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Known]:
    """Record id -> what these rows of `push_topic_events` tell together. `names`: its columns of fields. A row that
    names no record, because its message could not be read, tells nothing: `_problem` in its table says why."""
    found: dict[str, list[Known]] = {}
    for row in rows:
        record_id, kind = row[ID], row["event_type"]
        if record_id is None or kind is None:
            continue
        stamp = stamp_of_event(row)
        carried = columns_of(row[CARRIED] or (), names)
        values = {name: row[name] for name in carried if name != ID}
        found.setdefault(record_id, []).append(Known.of_notification(stamp, kind, values))
    return {record_id: join(known) for record_id, known in found.items()}


def stamp_of_event(row: Mapping[str, Any]) -> Stamp:
    """Return the stamp of a row of `push_topic_events`."""
    created = row["created_date"]
    return Stamp.of_notification(None if created is None else epoch_ms(created), row["replay_id"], row["position"])


def columns_of(fields: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the columns that hold values of these fields: those of their names, and those beside them that a field of
    another type, or one with the name of another column, has."""
    suffixes = ("", "__field", *(f"__{each}" for each in ColumnType))
    wanted = {f"{field}{suffix}".lower() for field in fields for suffix in suffixes}
    return [name for name in names if name.lower() in wanted]


def known_of_row(row: Mapping[str, Any]) -> Known:
    """Return what a row of `push_topic_state` knows."""
    stamps = json.loads(row["_stamps"])
    values = {name: (_stamp(stamp), row[name]) for stamp, names in stamps["values"] for name in names}
    standing = Standing.LEFT if row["_left_filter_at"] else Standing.DELETED if row["_is_deleted"] else Standing.THERE
    notified = None
    if row["_event_type"] is not None:
        created = row["_created_date"]
        stamp = Stamp.of_notification(
            None if created is None else epoch_ms(created), row["_replay_id"], row["_position"]
        )
        notified = (stamp, row["_event_type"])
    return Known(values, (_stamp(stamps["standing"]), standing), notified)


def state_rows(known: Mapping[str, Known], schema: pa.Schema) -> pa.Table:
    """Return the rows of these records, in the order of their ids; the table has a column for each field that is
    known."""
    rows = [_row(record_id, known[record_id]) for record_id in sorted(known)]
    return pa.Table.from_pylist(rows, schema=schema)


def _row(record_id: str, known: Known) -> dict[str, Any]:
    by_stamp: dict[Stamp, list[str]] = {}
    for name, (stamp, _) in sorted(known.values.items()):
        by_stamp.setdefault(stamp, []).append(name)
    notified, kind = known.notified or (None, None)
    stamps = {"standing": known.standing[0], "values": sorted(by_stamp.items())}
    return {
        ID: record_id,
        **known.plain_values(),
        "_is_deleted": known.standing[1] is Standing.DELETED,
        "_left_filter_at": utc_or_none(known.left_at_ms),
        "_event_type": kind,
        "_created_date": None if notified is None or notified.created_ms < 0 else utc_or_none(notified.created_ms),
        "_replay_id": None if notified is None else notified.replay[1].encode(),
        "_position": None if notified is None else notified.position,
        "_read_at": utc_or_none(known.read_at_ms),
        "_stamps": json.dumps(stamps, separators=(",", ":")),
    }


def _stamp(stored: Sequence[Any]) -> Stamp:
    created_ms, (length, text), read_at_ms, position = stored
    return Stamp(created_ms, (length, text), read_at_ms, position)
