"""Objects whose changes no stamp tells of: their records are read as a whole and compared with the table's.

The rows of a page are compared with the table's rows of the same Ids, and what is missing at the end is in the table
alone. What differs is suspect, and read back by its Id: that, and not the comparison, says what became of it. So the
versions between two comparisons are `UNKNOWN`, as nobody has seen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.current_state import CurrentState, conditions_on_ids
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.hard_deletes import ONLY_HERE, ONLY_THERE
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.whole_object import read_pages, start
from sfcdc_assets.polls.known_objects import ALL_FIELDS
from sfcdc_assets.runtime import clock
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

CHANGED = "changed without a stamp"


@dataclass(frozen=True)
class Compared:
    """Records that differ, and when the org was asked, by its own clock where that is known, otherwise by ours."""

    differing: int
    asked_at_ms: int


def compare_object(
    warehouse: Warehouse, org: OrgConnection, entity: str, fields: Sequence[str], position: int
) -> Compared:
    """Compare these fields (`ALL_FIELDS`, or names) of all records of an object that was copied and all of whose reads
    are in its table, and make suspect what differs. `position`: where the polls stand.

    Memory holds a page, and the Ids of the object. Raises what the org refuses.
    """
    table = CurrentState.open(warehouse, entity)
    assert table is not None, entity
    columns = _compared_columns(columns_of_table(Schemas(warehouse), entity, table.schema, org.privacy), fields)
    began_ms = clock.now_ms()
    where = org.condition_of(entity, POLLED)
    progress = start(
        org.session,
        entity,
        columns,
        channel=POLLED,
        position=position,
        snapshot_number=0,
        where=where,
        expected_rows=sum(file.rows for file in table.files().values()),
    )
    names = [each.name for each in columns if each.name in progress.fields and each.name != "Id"]
    seen: list[pl.Series] = []
    found: dict[str, str] = {}
    for page, _ in read_pages(org.session, progress, columns, on_unreadable=found.update):
        theirs = arrow_frame(page)
        ours = _rows_of(table, theirs["Id"].to_list(), names)
        found |= _differing(theirs, ours, names)
        seen.append(theirs["Id"])
    every = pl.concat([pl.Series("Id", list(found), pl.String), *seen])
    living = pl.Series("Id", [each.decode() for each in table.living_ids()], pl.String)
    found |= dict.fromkeys(living.filter(~living.is_in(every.implode())).to_list(), ONLY_HERE)
    if found:
        suspects = [NewSuspect(each, Reason.DRIFT, position, why) for each, why in found.items()]
        Ledger.open_or_create(warehouse, entity).note(suspects, POLLED, position, clock.now_ms())
    return Compared(len(found), progress.asked_at_ms or began_ms)


def _compared_columns(columns: Sequence[Column], fields: Sequence[str]) -> list[Column]:
    if tuple(fields) == ALL_FIELDS:
        return list(columns)
    return [column for column in columns if column.name == "Id" or column.name in fields]


def _rows_of(table: CurrentState, record_ids: list[str], names: Sequence[str]) -> pl.DataFrame:
    wanted = ["Id", "_is_deleted", *names]
    parts = [arrow_frame(table.table.scan(wanted, condition)) for condition in conditions_on_ids(record_ids)]
    return pl.concat(parts) if parts else arrow_frame(table.table.schema.empty_table().select(wanted))


def _differing(theirs: pl.DataFrame, ours: pl.DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Return the Ids of the org's rows that the table has otherwise, or not at all, each with what differs."""
    both = theirs.join(ours, on="Id", how="left", suffix="@table", coalesce=True)
    is_new = pl.col("_is_deleted@table").is_null()
    moved = pl.any_horizontal(
        pl.col("_is_deleted") != pl.col("_is_deleted@table"),
        *(pl.col(name).ne_missing(pl.col(f"{name}@table")) & ~pl.col("_is_deleted") for name in names),
    )
    there = both.filter(is_new & ~pl.col("_is_deleted"))["Id"].to_list()
    changed = both.filter(~is_new & moved.fill_null(value=False))["Id"].to_list()
    return dict.fromkeys(there, ONLY_THERE) | dict.fromkeys(changed, CHANGED)
