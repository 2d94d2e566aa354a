"""Versions from field history in `history`: the first versions that they stand before, their commit, and that they,
and others that nothing would make again, outlive a rebuild.

A commit is refused if a batch began since the tables were opened: the first versions may be others then. Their rows
have the number of the last batch, and the position of the first version as their end, so readers and the next writers
take them for rows of that batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import HASHED_METADATA
from sfcdc_assets.key_ranges.data_file import write_files
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.delta.shadow_tables import open_if_readable
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.timeline.past_rows import (
    FIELD_HISTORY,
    LOOKED_AT,
    first_versions,
    kept_before,
    kept_of_earlier_reads,
)

RECORDS_AT_ONCE = 100_000


class TablesNotBuilt(SfcdcError):
    """The entity has no tables whose versions could have a past."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: its tables are not built yet. Run `sfcdc sync --until-caught-up`, then this again."
        )


def open_pair(warehouse: Warehouse, entity: str) -> tuple[CurrentState, Appended]:
    """Open `history` first: a batch that begins after that has the commit refused. Raises `TablesNotBuilt`."""
    versions = history.open_if_there(warehouse, entity)
    state = CurrentState.open(warehouse, entity)
    if state is None or versions is None or not versions.is_built:
        raise TablesNotBuilt(entity)
    return state, versions


def append_past(warehouse: Warehouse, entity: str, versions: Appended, rows: pa.Table) -> None:
    """Add rows to `history`, in one commit; none is none. Raises `ConcurrentCommit`."""
    if not rows.num_rows:
        return
    files = write_files(rows, warehouse.filesystem(history.name_of(entity)))
    try:
        versions.add([NewFile(file.path, file.size, file.statistics) for file in files])
    except ConcurrentCommit:
        for file in files:
            warehouse.filesystem(history.name_of(entity)).delete_file(file.path)
        raise


def first_versions_of(warehouse: Warehouse, entity: str, window: IdWindow, names: Sequence[str]) -> pl.DataFrame:
    """Return the first versions of a range of Ids with these columns."""
    versions = all_versions(warehouse, entity, window.condition or None, [*LOOKED_AT, *names])
    if versions is None:
        raise TablesNotBuilt(entity)
    return first_versions(arrow_frame(versions))


def keep_versions_before(present: Warehouse, built: Warehouse, entity: str, watermark: int = 0) -> int:
    """Put versions that the present tables have before the first ones of those that are built in their place, and that
    nothing would make again; returns how many. Those are versions from field history before the same first versions:
    Salesforce deletes rows that are older than 18 to 24 months, so they cannot all be read again. And where it is built
    from reads of the org (with watermarks up to `watermark`) that came later than versions did, these. Values of
    columns that are gone, hidden or hashed otherwise now, or of another type, are left out.

    Raises `ConcurrentCommit`.
    """
    old = open_if_readable(present, history.name_of(entity))
    old_state = open_if_readable(present, current_state.name_of(entity))
    if old is None or old_state is None:
        return 0
    kept, part = 0, Checkpoint.of(old_state, "").part(history.ENDS_AT)
    wanted = f"(_change_type = '{FIELD_HISTORY}' or _superseded_at <= {watermark}) and {part}"
    state, _ = open_pair(built, entity)
    for window in state.id_windows(RECORDS_AT_ONCE):
        past = old.frame(predicate=f"{wanted}{_and(window)}")
        if past.is_empty():
            continue
        state, new = open_pair(built, entity)
        batch = Checkpoint.of(state.table, "").batch
        firsts = first_versions_of(built, entity, window, ())
        rows = kept_before(past.filter(pl.col("_change_type") == FIELD_HISTORY), firsts, batch)
        others = firsts.join(rows.select("Id"), on="Id", how="anti")
        rows = pl.concat([rows, kept_of_earlier_reads(past, others, batch).select(rows.columns)])
        append_past(built, entity, new, _fitted(rows, old.schema, new.table.schema))
        kept += rows.height
    return kept


def _and(window: IdWindow) -> str:
    return f" and {window.condition}" if window.condition else ""


def _fitted(rows: pl.DataFrame, before: pa.Schema, after: pa.Schema) -> pa.Table:
    """Return rows of one table as another has them."""
    same = {of.name for of in after if of.name in before.names and _is_same(before.field(of.name), of)}
    lost = sorted(set(before.names) - same)
    certain = pl.col("_certain_fields").list.eval(pl.element().filter(~pl.element().is_in(lost)))
    found = rows.with_columns(certain).to_arrow()
    arrays = [found[of.name].cast(of.type) if of.name in same else pa.nulls(rows.height, of.type) for of in after]
    return pa.table(arrays, schema=after)


def _is_same(before: pa.Field, after: pa.Field) -> bool:
    """Return whether a column's values mean the same, and may be seen as they were."""
    hashed = [(field.metadata or {}).get(HASHED_METADATA) for field in (before, after)]
    return before.type.equals(after.type) and hashed[0] == hashed[1]
