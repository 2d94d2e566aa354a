"""Records whose stamp has moved and nothing else: a picklist value was renamed, a roll-up was made, a job has run.

Salesforce stamps all records of an object then (Knowledge Article 000387261), and leaves `LastModifiedDate` as it was,
which moves with whatever a person or a program saves. Where that is the table's as well, and each value is, nothing
happened to the record: it gets no version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.current_state import CurrentState, conditions_on_ids

SAVED_AT = "LastModifiedDate"
_KNOWN = ("_is_deleted", "_in_doubt")


def perhaps_stamped(found: Mapping[str, Mapping[str, Any]], stamp: str) -> frozenset[str]:
    """Return the Ids of records (as REST gives them) that were stamped later than they were saved."""
    return frozenset(record_id for record_id, row in found.items() if _is_later(row.get(stamp), row.get(SAVED_AT)))


def merely_stamped(rows: pa.Table, table: CurrentState | None, ids: Collection[str]) -> frozenset[str]:
    """Return those of the Ids whose rows (columns, then `READ_COLUMNS`) show nothing that the table does not have."""
    if table is None or SAVED_AT not in rows.column_names or not ids:
        return frozenset()
    names = [name for name in rows.column_names if name != "Id" and name[0] != "_"]
    parts = [arrow_frame(table.table.scan(["Id", *_KNOWN, *names], each)) for each in conditions_on_ids(sorted(ids))]
    theirs = arrow_frame(rows).filter(pl.col("Id").is_in(list(ids)))
    both = theirs.select("Id", "_is_deleted", *names).join(pl.concat(parts), on="Id", suffix="@table")
    same = [pl.col(name).eq_missing(pl.col(f"{name}@table")) for name in ("_is_deleted", *names)]
    return frozenset(both.filter(pl.all_horizontal(*same) & ~pl.col("_in_doubt"))["Id"].to_list())


def _is_later(stamp: object, saved_at: object) -> bool:
    if stamp is None or saved_at is None:
        return False
    read = FORMS[ColumnType.TIMESTAMP].from_json
    later: datetime = read(stamp)
    return bool(later > read(saved_at))
