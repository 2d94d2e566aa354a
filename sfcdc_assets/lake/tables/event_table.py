"""The append-only table of one channel that carries no change events: `generic_events/<Channel>` and its like.

Rows, positions, replay ids and the place to resume from are one commit; see `LandedTable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.event_channels.event_rows import table_schema
from sfcdc_assets.event_channels.typed_event import NOT_KNOWN_YET
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.landed_table import LandedTable
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import APPEND_ONLY, feeds_entities, table_of
from sfcdc_assets.streams.checkpoint import StreamCheckpoint

STATISTICS_ON = ("channel", "position", "created_date", "received_at", "_problem")
"""Columns that files are chosen by, and one whose nulls are counted."""


class EventTable(LandedTable):
    """A handle on one snapshot of the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open(cls, warehouse: Warehouse, channel: str) -> EventTable | None:
        """Return the newest snapshot; None when nothing was ever landed of the channel."""
        table = Table.open(warehouse, table_of(channel))
        return None if table is None else cls(table)

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, channel: str, own_columns: pa.Schema | None = None) -> EventTable:
        """Return the newest snapshot; created with the columns of its kind when it does not exist."""
        schema = table_schema(own_columns if own_columns is not None else pa.schema([]))
        return cls(Table.open_or_create(warehouse, table_of(channel), schema, statistics_on=STATISTICS_ON))

    def untyped_from(self, channel: str) -> int:
        """Position of the first event that waits to be typed; 0 if none does."""
        return self.table.transaction_version(_untyped(channel)) or 0

    def land(self, rows: pa.Table, checkpoint: StreamCheckpoint, run_id: str, untyped_from: int) -> None:
        """`commit`, with the position of the first event that waits to be typed, 0 if none does.

        While events wait each commit names it: whoever notes at the same time that all are typed, or lands, is refused.
        """
        waits = untyped_from or self.untyped_from(checkpoint.channel)
        self.commit(rows, checkpoint, run_id, {_untyped(checkpoint.channel): untyped_from} if waits else {})

    def note_typed(self, channel: str, untyped_from: int) -> None:
        """Note that all events before a position are typed; 0: all are. Raises `ConcurrentCommit`."""
        self.table.append(self.table.schema.empty_table(), {_untyped(channel): untyped_from}, {})

    def first_untyped(self, since: int) -> int:
        """Position of the first event from a position on that waits to be typed, as its row says; 0 for none."""
        rows = self.table.scan(["position"], f"position >= {since} and _problem like '{NOT_KNOWN_YET}%'")
        return int(pc.min(rows["position"]).as_py()) if rows.num_rows else 0

    def problems(self) -> int:
        """Rows of which something did not fit, from the log alone."""
        files = self.table.file_statistics()
        if files.is_empty() or "null_count._problem" not in files.columns:
            return 0
        return int(files.select((pl.col("num_records") - pl.col("null_count._problem")).sum()).item())

    def newest_event(self) -> datetime | None:
        """Return when the newest event was made, from the log alone."""
        newest: datetime | None = self.table.file_statistics()["max.created_date"].max()  # type: ignore[assignment]
        return newest

    def newest(self, channel: str, count: int) -> pa.Table:
        """Return the last rows, newest first, without what is kept as delivered."""
        hidden = {"_delivered", "replay_id", "channel", "event_key"}
        shown = [name for name in self.table.schema.names if name not in hidden]
        rows = self.table.scan(shown, f"position > {self.last_position(channel) - 10 * count}")
        return rows.sort_by([("position", "descending")]).slice(0, count)


def _untyped(channel: str) -> str:
    return f"{channel}#untyped_from"


def landed_table(warehouse: Warehouse, channel: str) -> LandedTable:
    """Return the table that a channel is landed in; created when it does not exist."""
    return RawEvents.open(warehouse) if feeds_entities(channel) else EventTable.open_or_create(warehouse, channel)


def event_table_names(warehouse: Warehouse) -> tuple[str, ...]:
    """Return the paths of all such tables, by their folders."""
    return tuple(f"{kind.value}/{folder}" for kind in APPEND_ONLY for folder in warehouse.entities(kind.value))


def event_tables(warehouse: Warehouse) -> Iterator[tuple[str, EventTable]]:
    """Every channel that has such a table with rows, and its table."""
    for name in event_table_names(warehouse):
        table = Table.open(warehouse, name)
        row = table.head("position > 0", 1) if table is not None and table.count() else None
        if table is not None and row is not None:
            yield row["channel"][0].as_py(), EventTable(table)
