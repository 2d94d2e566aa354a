"""Which records of an entity changed since a batch, and which of their fields, as its tables say.

Batches and not positions: whatever comes into the tables later, be it an event or a read of the org that stands for an
earlier position, comes with a later batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import polars as pl

from sfcdc_assets.formulas.affected_records import ChangedFields
from sfcdc_assets.lake.tables import history
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH, Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse


def last_batch(warehouse: Warehouse, entity: str) -> int | None:
    """Return the number of the last batch in an entity's tables; None where it has none."""
    current = CurrentState.open(warehouse, entity)
    return None if current is None else current.table.transaction_version(BATCH) or 0


def changes_after(warehouse: Warehouse, entity: str, batch: int) -> dict[str, ChangedFields]:
    """Return the records that later batches than this one changed, each with its changed fields (None: any may be);
    everything where the tables were built again since."""
    current = CurrentState.open(warehouse, entity)
    last = 0 if current is None else current.table.transaction_version(BATCH) or 0
    if current is None or last == batch:
        return {}
    after = batch if batch < last else 0
    steps = _superseded(warehouse, entity, current, after)
    records: dict[str, ChangedFields] = {}
    for part in current.table.batches(["Id", "_is_deleted", "_in_doubt", "_changed_fields"], f"_batch > {after}"):
        for row in pl.DataFrame(part).iter_rows(named=True):
            fields = row["_changed_fields"]
            # Of several versions the row has the fields of the last one alone.
            is_known = fields is not None and not row["_in_doubt"] and not row["_is_deleted"] and steps[row["Id"]] < 2
            records[row["Id"]] = frozenset(fields) if is_known else None
    return records


def _superseded(warehouse: Warehouse, entity: str, current: CurrentState, after: int) -> Counter[str]:
    """Count the versions of each record that later batches superseded, but for those that say only that something may
    have changed: what did is in the version after them."""
    past, found = history.open_if_there(warehouse, entity), Counter[str]()
    if past is not None:
        part = Checkpoint.of(current.table, "").part(past.position)
        for rows in past.table.batches(["Id"], f"_batch > {after} and _change_type <> 'UNKNOWN' and {part}"):
            found.update(rows["Id"].to_pylist())
    return found


def records_that_refer(warehouse: Warehouse, entity: str, lookup: str, ids: Collection[str]) -> list[str]:
    """Return the living records of an entity whose field `lookup` holds one of the ids; none where no table says."""
    current = CurrentState.open(warehouse, entity)
    if current is None or lookup not in current.schema.names:
        return []
    wanted, found = pl.Series("ids", sorted(ids), pl.String).implode(), list[str]()
    for part in current.table.batches(["Id", lookup], "not _is_deleted"):
        rows = pl.DataFrame(part)
        found += rows.filter(pl.col(lookup).cast(pl.String).is_in(wanted))["Id"].to_list()
    return found
