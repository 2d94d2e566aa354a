"""What maintenance did to the tables of an asset, as Dagster metadata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import dagster as dg

from sfcdc_assets.lake.maintenance.maintain import TableDone
from sfcdc_assets.orchestration.assets.keys import AssetKeys


def by_asset(keys: AssetKeys, done: Sequence[TableDone]) -> Mapping[dg.AssetKey, Sequence[TableDone]]:
    """Return the assets something was done to, with their tables; what no asset stands for is reported with
    `raw_events`."""
    known = {key.path[-1]: key for key in (keys.consistent_cuts, keys.snapshot, *keys.of_tables)}
    found: dict[dg.AssetKey, list[TableDone]] = defaultdict(list)
    for each in done:
        if each.is_worth_telling:
            found[known.get(each.table.partition("/")[0], keys.raw_events)].append(each)
    return found


def maintenance_metadata(tables: Sequence[TableDone]) -> dict[str, dg.MetadataValue]:
    """Return sums, and a row for each table."""
    rows = [
        dg.TableRecord(
            {
                "table": each.table,
                "files packed": each.packed,
                "into": each.packed_into,
                "files separated": each.separated,
                "files deleted": each.vacuumed,
                "rows pruned": each.pruned,
                "seconds": round(each.seconds, 1),
                "left": each.failure or each.left or "",
            }
        )
        for each in tables
    ]
    return {
        "files_packed": dg.MetadataValue.int(sum(each.packed for each in tables)),
        "packed_into": dg.MetadataValue.int(sum(each.packed_into for each in tables)),
        "files_separated": dg.MetadataValue.int(sum(each.separated for each in tables)),
        "files_deleted": dg.MetadataValue.int(sum(each.vacuumed for each in tables)),
        "rows_pruned": dg.MetadataValue.int(sum(each.pruned for each in tables)),
        "tables": dg.MetadataValue.table(rows),
    }
