"""Objects whose changes no stamp tells of: their records are read as a whole and compared with the table's.

The rows of a page are compared with the table's rows of the same Ids, and what is missing at the end is in the table
alone. What differs is suspect, and read back by its Id: that, and not the comparison, says what became of it. So the
versions between two comparisons are `UNKNOWN`, as nobody has seen them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.hard_deletes import ONLY_HERE, ONLY_THERE
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.whole_object import read_pages, start
from sfcdc_assets.polls.known_objects import ALL_FIELDS, known_object
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.salesforce.composite_query import PAGE_ROWS
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

CHANGED = "changed without a stamp"


MOST_MS = 86_400_000
"""A comparison that is not over after so long is begun again: what it has read gets old."""


class ComparisonTooLong(SfcdcError):
    """An object could not be compared within a day."""

    def __init__(self, entity: str, pages: int) -> None:
        super().__init__(
            f"{entity}: its comparison has read {counted(pages, 'page')} in a day and is begun again. Raise "
            "SFCDC_POLL_PERCENT, or look whether the org has room for Bulk jobs."
        )


@dataclass(frozen=True)
class Compared:
    """Records that differ, and when the org was asked, by its own clock where that is known, otherwise by ours."""

    differing: int
    asked_at_ms: int


class _NoTime(Exception):
    """The org is still at work on the job, and whoever asks has no time left."""


def takes_a_job(warehouse: Warehouse, entity: str) -> bool:
    """Return whether an object's comparison is by a Bulk job, and not by queries."""
    return _rows(warehouse, entity) > PAGE_ROWS and not known_object(entity).no_bulk


def _rows(warehouse: Warehouse, entity: str) -> int:
    return sum(file.rows for file in _table(warehouse, entity).files().values())


def _table(warehouse: Warehouse, entity: str) -> CurrentState:
    table = CurrentState.open(warehouse, entity)
    assert table is not None, entity
    return table


class ObjectComparison:
    """The comparison of one object that was copied and all of whose reads are in its table, in as many steps as whoever
    asks has time for.

    Memory holds a page, and the Ids of the object. What changes between two steps differs as well: reading it back
    shows that nothing is wrong.
    """

    def __init__(
        self, warehouse: Warehouse, org: OrgConnection, entity: str, fields: Sequence[str], position: int
    ) -> None:
        """Begin to compare these fields (`ALL_FIELDS`, or names) of all records. `position`: where the polls stand.
        Raises what the org refuses."""
        self.entity = entity
        self._warehouse, self._org, self._position = warehouse, org, position
        columns = columns_of_table(Schemas(warehouse), entity, _table(warehouse, entity).schema, org.privacy)
        self._columns = _compared_columns(columns, fields)
        self._began_ms = clock.now_ms()
        self._progress = start(
            org.session,
            entity,
            self._columns,
            channel=POLLED,
            position=position,
            snapshot_number=0,
            where=org.condition_of(entity, POLLED),
            expected_rows=_rows(warehouse, entity),
        )
        self._names = [each.name for each in self._columns if each.name in self._progress.fields and each.name != "Id"]
        self._seen: list[pl.Series] = []
        self._found: dict[str, str] = {}

    def go_on(self, may_go_on: Callable[[], bool]) -> Compared | None:
        """Compare page by page while it `may_go_on`, and make suspect what differs; None where there is more to read.
        Raises what the org refuses, and `ComparisonTooLong`."""
        session = self._org.session

        def sleep(seconds: float) -> None:
            if not may_go_on():
                raise _NoTime
            session.sleep(seconds)

        pages = read_pages(session, self._progress, self._columns, sleep=sleep, on_unreadable=self._found.update)
        with suppress(_NoTime), closing(pages):
            for page, self._progress in pages:
                self._compare(page)
                if not may_go_on():
                    break
        if self._progress.complete:
            return self._ended()
        if clock.now_ms() - self._began_ms > MOST_MS:
            raise ComparisonTooLong(self.entity, self._progress.pages_done)
        return None

    def _compare(self, page: pa.Table) -> None:
        theirs = arrow_frame(page)
        wanted = ["Id", "_is_deleted", *self._names]
        ours = _table(self._warehouse, self.entity).rows_of(theirs["Id"].to_list(), wanted)
        self._found |= _differing(theirs, ours, self._names)
        self._seen.append(theirs["Id"])

    def _ended(self) -> Compared:
        found = self._found
        every = pl.concat([pl.Series("Id", list(found), pl.String), *self._seen])
        living = pl.Series(
            "Id", [each.decode() for each in _table(self._warehouse, self.entity).living_ids()], pl.String
        )
        found |= dict.fromkeys(living.filter(~living.is_in(every.implode())).to_list(), ONLY_HERE)
        if found:
            suspects = [NewSuspect(each, Reason.DRIFT, self._position, why) for each, why in found.items()]
            Ledger.open_or_create(self._warehouse, self.entity).note(suspects, POLLED, self._position, clock.now_ms())
        return Compared(len(found), self._progress.asked_at_ms or self._began_ms)


def _compared_columns(columns: Sequence[Column], fields: Sequence[str]) -> list[Column]:
    if tuple(fields) == ALL_FIELDS:
        return list(columns)
    return [column for column in columns if column.name == "Id" or column.name in fields]


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
