"""Noted counts: how many rows of `current_state` are of deleted records, or in doubt, without reading a row.

The log's statistics say how many rows a file has, and of no flag how often it is set. So the commit of a batch notes
the counts that it leads to, as transaction versions: log cleanup and whoever packs files leave them as they are.

They hold for the batch that noted them, which is noted too, and for the number of rows that the log has. Where either
differs, a release that notes nothing has written since, or somebody else has, and they are not believed.
"""

from __future__ import annotations

from sfcdc_assets.lake.checkpoint import BATCH
from sfcdc_assets.lake.table import Table
from sfcdc_assets.state.row_counts import RowCounts

_PREFIX = "counted "
_OF_BATCH = f"{_PREFIX}{BATCH}"


def noting(counts: RowCounts | None, batch: int) -> dict[str, int]:
    """The transaction versions that note the counts after a batch; none where they are not known."""
    if counts is None:
        return {}
    return {_OF_BATCH: batch} | {f"{_PREFIX}{name}": number for name, number in vars(counts).items()}


def noted_counts(table: Table) -> RowCounts | None:
    """What was noted of the version that a handle stands at; None where nothing was that holds for it."""
    batch = table.transaction_version(_OF_BATCH)
    if batch is None or batch != table.transaction_version(BATCH):
        return None
    names = RowCounts.__dataclass_fields__
    found = RowCounts(**{name: table.transaction_version(f"{_PREFIX}{name}") or 0 for name in names})
    return found if found.rows == table.count() else None
