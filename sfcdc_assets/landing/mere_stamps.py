"""Records whose stamp has moved and nothing else: a picklist value was renamed, a roll-up was made, a job has run.

Salesforce stamps all records of an object then (Knowledge Article 000387261), and leaves `LastModifiedDate` as it was,
which moves with whatever a person or a program saves. Where that is the table's as well, and each value is, nothing
happened to the record: it gets no version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import POLLED

SAVED_AT = "LastModifiedDate"
_KNOWN = ("_is_deleted", "_in_doubt")


def perhaps_stamped(found: Mapping[str, Mapping[str, Any]], stamp: str) -> frozenset[str]:
    """Return the Ids of records (as REST gives them) that were stamped later than they were saved."""
    return frozenset(record_id for record_id, row in found.items() if _is_later(row.get(stamp), row.get(SAVED_AT)))


class MereStamps:
    """Tells them from changes, over the pages of one poll of an object."""

    def __init__(self, warehouse: Warehouse, entity: str, taken: Snapshots) -> None:
        self._warehouse, self._entity, self._taken = warehouse, entity, taken
        self._has_looked = False
        self._waiting: set[str] = set()
        """Records with a read that is not in the table: of this poll and, once that was looked at, of those before."""

    def among(self, rows: pa.Table, ids: Collection[str]) -> frozenset[str]:
        """Return those of the Ids whose rows (columns, then `READ_COLUMNS`) show nothing that the table does not have.
        Of a record with a read that waits to be applied the table does not say what it will have, nor of any while a
        snapshot waits."""
        table = CurrentState.open(self._warehouse, self._entity)
        if table is None or SAVED_AT not in rows.column_names:
            return frozenset()
        if not self._has_looked:
            has = table.checkpoint(POLLED)
            if self._taken.last_number() > has.snapshot:
                return frozenset()
            for reading in self._taken.read_backs(has.read_back):
                self._waiting.update(reading.record_ids)
            self._has_looked = True
        return _same_in(table, rows, set(ids) - self._waiting)

    def were_read(self, ids: Iterable[str]) -> None:
        """Take note of records of which a read was written."""
        self._waiting.update(ids)


def _same_in(table: CurrentState, rows: pa.Table, ids: Collection[str]) -> frozenset[str]:
    if not ids:
        return frozenset()
    names = [name for name in rows.column_names if name != "Id" and name[0] != "_"]
    ours = table.rows_of(sorted(ids), ["Id", *_KNOWN, *names])
    theirs = arrow_frame(rows).filter(pl.col("Id").is_in(list(ids)))
    both = theirs.select("Id", "_is_deleted", *names).join(ours, on="Id", suffix="@table")
    same = [pl.col(name).eq_missing(pl.col(f"{name}@table")) for name in ("_is_deleted", *names)]
    return frozenset(both.filter(pl.all_horizontal(*same) & ~pl.col("_in_doubt"))["Id"].to_list())


def _is_later(stamp: object, saved_at: object) -> bool:
    if stamp is None or saved_at is None:
        return False
    read = FORMS[ColumnType.TIMESTAMP].from_json
    later: datetime = read(stamp)
    return bool(later > read(saved_at))
