"""Changes: one row for each record that an event names, sparse in its values.

A change carries a cell for each column that its event sets and none for the others, so that an unchanged field and a
field set to null can never be confused (guarantee 4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.cell_lists import CELL
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.kinds_of_time import ALL_SETTLED, Unsettled
from sfcdc_assets.timeline.decoded_events import EventReader
from sfcdc_assets.timeline.steps import SETS_ALL

CHANGES = pa.schema(
    [
        ("key_range", pa.int32()),
        ("record_id", pa.string()),
        ("position", pa.int64()),
        ("change_type", pa.string()),
        ("commit_timestamp", pa.timestamp("us", "UTC")),
        ("commit_user", pa.string()),
        ("change_origin", pa.string()),
        ("transaction_key", pa.string()),
        ("cells", pa.list_(CELL)),
        ("diff_columns", pa.list_(pa.int32())),
        ("enriched", pa.list_(CELL)),
        ("error", pa.string()),
        ("missing", pa.string()),
        ("unproven", pa.list_(pa.int32())),
    ]
)
"""`diff_columns` are the columns whose cell holds a diff instead of the value. `enriched` are values the event carries
without having changed them: they are compared, never applied (`state.enrichment`). `error` says why the event's body
could not be decoded; its change type is then `UNDECODABLE`. `missing` says what the event changed without telling the
value: its cells are right, and not all. `unproven` are the columns whose value is not known after the change; null for
none."""

COLUMNS_SET = pl.col("cells").list.eval(pl.element().struct.field("column"))
"""Of a row of `CHANGES`: the columns that it sets."""
COLUMNS_LEFT_OPEN = pl.col("unproven").fill_null(pl.lit([], pl.List(pl.Int32)))
"""Of a row of `CHANGES`: its `unproven` columns, an empty list for none."""

_EMPTY_ID_BEGINS = "0" * 14
_EMPTY_ID = re.compile(_EMPTY_ID_BEGINS + "0?AAA")

UNDECODABLE = "UNDECODABLE"

RAW_COLUMNS = (
    "channel",
    "position",
    "schema_id",
    "payload",
    "record_ids",
    "change_type",
    "commit_timestamp",
    "commit_user",
    "change_origin",
    "transaction_key",
)
"""What decoding needs of `raw_events`."""


class ChangeReader:
    """Decodes rows of `raw_events` into changes, each event in its own form and with its own schema; keeps decoders."""

    def __init__(
        self,
        schemas: Mapping[str, str],
        columns: Sequence[Column],
        skipped: Collection[int] = frozenset(),
        unsettled: Unsettled = ALL_SETTLED,
    ) -> None:
        """`schemas` maps schema ids to Avro JSON; `columns` are the table's; events at `skipped` positions are left
        out (they were published twice); `unsettled` are those that may be of other types than the columns were."""
        self._skipped = pa.array(sorted(skipped), pa.int64())
        self._events = EventReader(schemas, columns, unsettled)

    def read(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """One change for each record id of each row, `key_range` unset. A body that cannot be decoded is a change of
        type `UNDECODABLE` with the reason, so that nothing else waits for it."""
        table = pa.table({name: rows.column(name) for name in RAW_COLUMNS})
        if len(self._skipped):
            table = table.filter(pc.invert(pc.is_in(table["position"], self._skipped)))
        events = self._events.read(table["schema_id"], table["position"], table["payload"])
        change_type = pc.if_else(events["error"].is_valid(), UNDECODABLE, table["change_type"])
        of_events = pa.table(
            {
                **{name: table[name] for name in CHANGES.names if name in RAW_COLUMNS},
                **{name: events[name] for name in events.schema.names},
                "change_type": change_type,
                "unproven": self._unproven(table, change_type, events["unproven"]),
            }
        )
        return _of_records(table["record_ids"].combine_chunks(), of_events)

    def _unproven(self, rows: pa.Table, change_type: pa.ChunkedArray, by_bodies: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return `unproven`: what bodies leave open, and of events that set all that their schema has what that lacks.
        Such a field may have got its values by the time of a later schema, without an event."""
        places = np.flatnonzero(pc.is_in(change_type, pa.array(SETS_ALL)).to_numpy())
        if not len(places):
            return by_bodies
        lacked = self._events.lacked(rows["schema_id"].take(places), rows["position"].take(places))
        if not lacked:
            return by_bodies
        found = by_bodies.to_pylist()
        for at, columns in lacked.items():
            found[places[at]] = sorted({*(found[places[at]] or ()), *columns})
        return pa.chunked_array([pa.array(found, by_bodies.type)])


def _of_records(record_ids: pa.ListArray, events: pa.Table) -> pa.RecordBatch:
    """One row for each record that an event names, beside what there is to say of the event."""
    ids, of_event = pc.list_flatten(record_ids), pc.list_parent_indices(record_ids)
    if pl.DataFrame({"id": ids}).select(may_name_more(pl.col("id")).any()).item():
        named = pa.array([names_one_record(record_id) for record_id in ids.to_pylist()], pa.bool_())
        ids, of_event = ids.filter(named), of_event.filter(named)
    if not np.array_equal(of_event.to_numpy(), np.arange(len(record_ids))):
        events = events.take(of_event)
    columns = {"key_range": pa.nulls(len(ids), pa.int32()), "record_id": ids}
    columns |= {name: _one_chunk(events[name]) for name in CHANGES.names if name not in columns}
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in CHANGES], schema=CHANGES)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def names_one_record(record_id: str) -> bool:
    """Return False for a wildcard such as `001*` and for the empty id of an overflow event: these speak of the whole
    entity (docs/salesforce-streams.md, "Wildcard ids")."""
    return not record_id.endswith("*") and not _EMPTY_ID.fullmatch(record_id)


def may_name_more(record_id: pl.Expr) -> pl.Expr:
    """Return whether `names_one_record` has to be asked: of most ids it has not."""
    return record_id.str.ends_with("*") | record_id.str.starts_with(_EMPTY_ID_BEGINS)
