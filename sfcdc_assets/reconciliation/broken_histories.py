"""Records whose versions do not follow each other."""

from __future__ import annotations

import polars as pl

from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.version_columns import IN_ORDER

ROWS_AT_ONCE = 250_000
"""Rows of `current_state` whose versions are compared at once."""


def broken_histories(warehouse: Warehouse, entity: str) -> list[str]:
    """Ids of the records whose versions do not, in order; memory holds the versions of some key-range files."""
    table = CurrentState.open(warehouse, entity)
    found: list[str] = []
    for window in table.id_windows(ROWS_AT_ONCE) if table is not None else ():
        versions = all_versions(warehouse, entity, window.condition or None, IN_ORDER)
        if versions is not None:
            found += broken(arrow_frame(versions))
    return sorted(found)


def broken(versions: pl.DataFrame) -> list[str]:
    """Ids of the records of whose versions one does not end where the next begins, by time and by position, or whose
    last version is not the row's."""
    ordered = versions.sort(IN_ORDER, nulls_last=True)
    has_next = pl.col("Id") == pl.col("Id").shift(-1)
    next_position = pl.when(has_next).then(pl.col("_position").shift(-1))
    next_from = pl.when(has_next).then(pl.col("_valid_from").shift(-1))
    follows = pl.col("_superseded_at").eq_missing(next_position) & pl.col("_valid_to").eq_missing(next_from)
    return ordered.filter(~follows)["Id"].unique().sort().to_list()
