"""One Delta table: open it, or create it.

What can be done with a table that is open: `table_snapshot` (what its log says), `table_reads`, and
`table_commits`, with what keeps a table small.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from sfcdc_assets.lake.delta.handles import HANDLES, Held
from sfcdc_assets.lake.delta.table_changes import note
from sfcdc_assets.lake.delta.table_commits import TableUpkeep
from sfcdc_assets.lake.errors import ConcurrentCommit, TableDamaged, WarehouseNotWritable
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import reason_of
from sfcdc_assets.lake.warehouse import Warehouse

COMMITS_UNTIL_CHECKPOINT = 10
"""Of a table in an object store to which every batch commits, as Delta's own default is; delta-rs's is 100. Who opens a
table reads every commit since its last checkpoint, each by three requests of the store."""

OF_A_CUT = ("text_fields", "gap_reconciliation", "history", "current_state")
"""Layers whose versions consistent cuts name. Their writers delete nothing of the log, as that goes by age and knows
nothing of cuts: maintenance does."""


class Table(TableUpkeep):
    """A handle on one snapshot of a Delta table. Not refreshed by others' commits: open it again to see them."""

    @classmethod
    def open(cls, warehouse: Warehouse, name: str, version: int | None = None) -> Table | None:
        """Return the table's newest snapshot, or that of a version; None when it does not exist. Raises `TableDamaged`,
        and `StoreRefused` or `StoreUnavailable` where nothing was learned of the table."""
        uri, log = warehouse.uri(name), partial(warehouse.filesystem, name)
        try:
            with store_refusals(warehouse.root):
                if version is not None:
                    return cls(name, DeltaTable(uri, version=version))
                handle = HANDLES.take(uri, log)
        except TableNotFoundError:
            note(warehouse, name, None)
            return None
        except (DeltaError, OSError) as error:
            raise TableDamaged(name, None, None, f"cannot be read ({reason_of(error)})") from error
        table = cls(name, handle.delta)
        table._answers = handle.answers
        table._held = Held(table, uri, log, handle)
        note(warehouse, name, table.version, handle.newest)
        return table

    @classmethod
    def open_or_create(
        cls,
        warehouse: Warehouse,
        name: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        statistics_on: Sequence[str] = (),
        of_batches: bool = False,
    ) -> Table:
        """Return the table's newest snapshot; created empty, with `schema`, when it does not exist.

        `statistics_on`: the columns whose minimum and maximum the log keeps for each file; Delta's default is the
        first 32 columns, of which a wide table's last ones are none. `of_batches`: each batch of an entity commits to
        it, and each run opens it from nothing (`COMMITS_UNTIL_CHECKPOINT`).
        Raises `WarehouseNotWritable` when it cannot be created.
        """
        found = cls.open(warehouse, name)
        if found is not None:
            return found
        configuration: dict[str, str | None] = {}
        if is_of_a_cut(name):
            configuration["delta.enableExpiredLogCleanup"] = "false"
        if statistics_on:
            configuration["delta.dataSkippingStatsColumns"] = ",".join(statistics_on)
        if of_batches and not warehouse.is_local:
            configuration["delta.checkpointInterval"] = str(COMMITS_UNTIL_CHECKPOINT)
        try:
            with store_refusals(warehouse.root):
                delta = DeltaTable.create(
                    warehouse.uri(name),
                    schema,
                    mode="ignore",
                    partition_by=list(partition_by) or None,
                    configuration=configuration or None,
                )
        except (OSError, DeltaError) as error:
            made_by_another = cls.open(warehouse, name)
            if made_by_another is not None:
                return made_by_another
            raise WarehouseNotWritable(warehouse.uri(name), reason_of(error)) from error
        return cls(name, delta)

    @classmethod
    def create_like(cls, warehouse: Warehouse, name: str, other: Table) -> Table:
        """Return a new empty table with the schema, the partition columns and the settings of another. Raises
        `ConcurrentCommit` when there is one already."""
        try:
            delta = DeltaTable.create(
                warehouse.uri(name),
                other.schema,
                partition_by=other.partition_columns() or None,
                configuration=dict(other._delta.metadata().configuration) or None,
            )
        except DeltaError as error:
            if cls.open(warehouse, name) is None:
                raise
            raise ConcurrentCommit(name, "another process has created it meanwhile") from error
        return cls(name, delta)


def is_of_a_cut(name: str) -> bool:
    """Return whether consistent cuts name versions of a table, which is named by its path."""
    return name.partition("/")[0] in OF_A_CUT
