"""Rows of a channel's table typed again, from the bytes of their events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sfcdc_assets.event_channels.event_rows import EVENT_COLUMNS, KEPT_COLUMNS, column_of, event_rows, missing_columns
from sfcdc_assets.event_channels.typed_event import EventReader, read_event
from sfcdc_assets.runtime.times import epoch_ms
from sfcdc_assets.streams.delivered_event import DeliveredEvent

AT_ONCE = 10_000
"""Events that are Python objects at a time."""
_OF_DELIVERY = ["event_id", "schema_id", "_delivered", "replay_id", "received_at"]


def typed_again(channel: str, reader: EventReader, rows: pa.Table) -> pa.Table:
    """Return the rows, all of which have their bytes (`_delivered`), as they would be if their events came now: in
    their order, at their positions, perhaps with more columns. A column that the reader does not make keeps what it
    holds. An event whose fields are not known now has that as its problem. Raises what the reader raises."""
    schema, parts = rows.schema, [rows.schema.empty_table()]
    for start in range(0, rows.num_rows, AT_ONCE):
        part = rows.slice(start, AT_ONCE)
        events = [_event(row) for row in part.select(_OF_DELIVERY).to_pylist()]
        typed = [read_event(reader, event, has_landed=True) for event in events]
        schema = pa.schema([*schema, *missing_columns(schema, typed)])
        own = {*EVENT_COLUMNS.names, *KEPT_COLUMNS.names, *reader.own_columns.names} - {"position"}
        made = own | {column_of(schema, column) for column in {column for each in typed for column in each.values}}
        new = event_rows(channel, 0, events, typed, schema)
        for name in part.schema.names:
            if name not in made:
                new = new.set_column(schema.get_field_index(name), schema.field(name), part[name])
        parts.append(new)
    return pa.concat_tables(parts, promote_options="default").select(schema.names)


def _event(row: Mapping[str, Any]) -> DeliveredEvent:
    received_ms = epoch_ms(row["received_at"])
    return DeliveredEvent(row["event_id"], row["schema_id"] or "", row["_delivered"], row["replay_id"], received_ms)
