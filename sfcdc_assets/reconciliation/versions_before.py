"""The versions of an entity's records before their first known one, from the org's field history into `history`.

Range of Ids by range: its rows are read, folded back, and committed together. What events and reads have proven is
never touched: rows are appended only, and only before the first version of a record that has none from field history
yet. So a run that was interrupted, or is made again, adds what is missing and changes nothing else. A commit is
refused, and made again, if a batch began meanwhile: the first versions may be others then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.apply.record_cut import note_history
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.erasure_receipts import erased_records
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_connection.snapshot_budget import SnapshotBudget
from sfcdc_assets.org_reads.field_history import (
    PARENT,
    FieldHistory,
    OfField,
    field_history_of,
    is_bulk,
    requests_for,
    rows_by_field,
    rows_of,
    rows_within,
)
from sfcdc_assets.reconciliation.past_in_history import append_past, first_versions_of, open_pair
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.progress import FieldHistoryRead, notify
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.timeline.field_history import HistoryRow, Why, columns_of_fields
from sfcdc_assets.timeline.past_rows import FIELD_HISTORY, first_version, past_rows, without_a_past
from sfcdc_assets.timeline.past_versions import CREATED_BY, CREATED_DATE, fold_history

ROWS_AT_ONCE = 500_000
"""Rows of a field history that are held at once, about."""
FEWEST_RECORDS, MOST_RECORDS, RECORDS_OF_UNCOUNTED = 1_000, 100_000, 20_000
"""Records in a range of Ids, about; also where the org does not count the rows."""
ROWS_OF_A_PIECE = 20_000
"""Versions that are held as Python's objects."""


class HistoryWaits(SfcdcError):
    """The org's allowances have no room for the rest of a field history."""

    def __init__(self, entity: str, reason: str) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: not all of its field history is read, because {reason}. What was written stays: run it again "
            "later, have the allowance raised, or lower SFCDC_SNAPSHOT_RESERVE_PERCENT."
        )


@dataclass
class VersionsBefore:
    """What was found and done. `records`: those that have rows and a first version with something before it, `done`:
    those that had versions from field history already. `misfits`: (field, why) -> how often rows prove less than they
    should. `fields`, where the org groups its rows. `requests`: spent, or, where nothing was read, about those that it
    takes."""

    entity: str
    field_history: str
    rows: int | None
    fields: tuple[OfField, ...]
    is_dry: bool
    requests: int = 0
    read: int = 0
    records: int = 0
    done: int = 0
    versions: int = 0
    misfits: Counter[tuple[str, Why]] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return it as a program reads it."""
        return {
            "entity": self.entity,
            "field_history": self.field_history,
            "rows": self.rows,
            "fields": [
                {"field": each.field, "rows": each.rows, "since": each.since.isoformat() if each.since else None}
                for each in self.fields
            ],
            "dry_run": self.is_dry,
            "requests": self.requests,
            "rows_read": self.read,
            "records": self.records,
            "records_done_before": self.done,
            "versions": self.versions,
            "misfits": [
                {"field": name, "why": why, "count": count} for (name, why), count in sorted(self.misfits.items())
            ],
        }


@dataclass(frozen=True)
class _Past:
    """The past of the records of a range of Ids: rows of `history`, and what is said of them."""

    rows: pa.Table
    records: int
    done: int
    misfits: Counter[tuple[str, Why]]


def versions_before(
    run: OrgRunContext, entity: str, *, tracked_since: datetime | None = None, dry_run: bool = False
) -> VersionsBefore:
    """Read the entity's field history and write what it tells of into `history`; with `dry_run` only look at it.

    `tracked_since`: the fields whose rows go back to then were tracked from then on, as a person knows; before the
    first change of such a field its value is then certain, too. Raises `NoFieldHistory`, `TablesNotBuilt`,
    `HistoryWaits` where the org's allowances have no room (what was written stays), and the session's errors.
    """
    session = run.org.session
    before = session.calls_of_this_thread
    state, _ = open_pair(run.warehouse, entity)
    source = field_history_of(session, entity)
    found = rows_of(session, source)
    fields = rows_by_field(session, source)
    windows = _windows(state, found)
    report = VersionsBefore(entity, source.name, found, fields, dry_run)
    if dry_run:
        report.requests = requests_for(found, len(windows))
        return report
    known = [each.field for each in fields if tracked_since and each.since and each.since <= tracked_since]
    work = _Work(run, source, tracked_since, tuple(known))
    try:
        for window, rows in work.read(windows, found) if found != 0 else ():
            report.read += rows.height
            if rows.height:
                _add(work, window, rows, report)
            notify(FieldHistoryRead(entity, report.read, found, report.versions))
    finally:
        if report.versions:
            with suppress(ConcurrentCommit):  # the cut of the run that was faster has them, or the next one
                note_history(run.warehouse, entity)
    report.requests = session.calls_of_this_thread - before
    return report


@dataclass(frozen=True)
class _Work:
    run: OrgRunContext
    source: FieldHistory
    since: datetime | None
    fields: tuple[str, ...]
    """Those that were tracked since then."""

    def tracked(self, columns: Sequence[Column]) -> Mapping[str, datetime]:
        if self.since is None:
            return {}
        return {column.name: self.since for column in columns_of_fields(columns, self.fields)}

    def read(self, windows: Sequence[IdWindow], found: int | None) -> Iterator[tuple[IdWindow, pl.DataFrame]]:
        """Yield the ranges of Ids, each with its rows: each is a Bulk job, or one query is for all. Raises
        `HistoryWaits` before a request for which there is no room."""
        session = self.run.org.session
        budget = SnapshotBudget(self.run.org, self.run.settings.snapshot_reserve_percent)
        if not is_bulk(found):
            self._check(budget.why_not_go_on())
            every = arrow_frame(rows_within(session, self.source, IdWindow(), by_bulk=False))
            for window in windows:
                yield window, every.filter(_is_within(window))
            return
        for window in windows:
            self._check(budget.begin())
            yield window, arrow_frame(rows_within(session, self.source, window, by_bulk=True))

    def _check(self, why_not: str | None) -> None:
        if why_not is not None:
            raise HistoryWaits(self.source.entity, why_not)


def _is_within(window: IdWindow) -> pl.Expr:
    lower = pl.lit(value=True) if window.lower is None else pl.col(PARENT) >= window.lower
    return lower if window.upper is None else lower & (pl.col(PARENT) < window.upper)


@retry_on_conflict
def _add(work: _Work, window: IdWindow, rows: pl.DataFrame, report: VersionsBefore) -> None:
    """Commit the past of a range of Ids, and add it to the report. Raises `ConcurrentCommit`."""
    warehouse, entity = work.run.warehouse, work.source.entity
    state, versions = open_pair(warehouse, entity)
    past = _past(work, window, rows, state, versions.table.schema)
    append_past(warehouse, entity, versions, past.rows)
    report.records += past.records
    report.done += past.done
    report.versions += past.rows.num_rows
    report.misfits += past.misfits


def _past(work: _Work, window: IdWindow, rows: pl.DataFrame, state: CurrentState, schema: pa.Schema) -> _Past:
    """Fold rows back from the first versions of a range of Ids. Those of suspect records wait: what their rows say now
    is not certain."""
    warehouse, entity = work.run.warehouse, work.source.entity
    suspects = arrow_frame(
        state.table.scan(["Id"], "_in_doubt" + (f" and {window.condition}" if window.condition else ""))
    )
    batch = Checkpoint.of(state.table, "").batch
    erased = erased_records(warehouse)
    if erased.known:  # also where an event has started a record again: what was before stays erased
        rows = rows.filter(pl.Series([erased.of(each) is None for each in rows[PARENT]], dtype=pl.Boolean))
    columns = columns_of_table(Schemas(warehouse), entity, schema, work.run.privacy)
    reported = columns_of_fields(columns, rows["Field"].drop_nulls().unique().to_list())
    of_creation = [each for each in columns if each.name in (CREATED_DATE, CREATED_BY) and each.hash_key is None]
    columns = tuple(dict.fromkeys([*reported, *of_creation]))
    names = [column.name for column in columns]
    firsts = first_versions_of(warehouse, entity, window, names).join(suspects, on="Id", how="anti")
    firsts = firsts.join(rows.select(pl.col(PARENT).alias("Id")).unique(), on="Id", how="semi")
    wanted = without_a_past(firsts).sort("Id")
    rows = rows.join(wanted.select(pl.col("Id").alias(PARENT)), on=PARENT, how="semi").sort(PARENT)
    since, misfits = work.tracked(reported), Counter[tuple[str, Why]]()
    found: list[dict[str, Any]] = []
    pieces: list[pa.Table] = []
    of_records = groupby(rows.iter_rows(named=True), itemgetter(PARENT))
    for first, (_, of_record) in zip(wanted.iter_rows(named=True), of_records, strict=True):
        folded = fold_history(columns, first_version(first, columns), map(_row, of_record), since)
        misfits.update((each.field, each.why) for each in folded.misfits)
        found += past_rows(folded, first, batch)
        if len(found) >= ROWS_OF_A_PIECE:
            pieces.append(_table(found, schema))
            found = []
    pieces.append(_table(found, schema))
    done = firsts.filter(pl.col("_change_type") == FIELD_HISTORY).height
    return _Past(pa.concat_tables(pieces), wanted.height, done, misfits)


def _row(row: Mapping[str, Any]) -> HistoryRow:
    return HistoryRow(
        row["Id"], row["Field"], row["OldValue"], row["NewValue"], row["CreatedDate"], row["CreatedById"],
        row["DataType"],
    )  # fmt: skip


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows with the table's columns; most of them are null, and cost no loop."""
    used = {name for row in rows for name in row}
    arrays = [
        pa.array([row.get(of.name) for row in rows], of.type) if of.name in used else pa.nulls(len(rows), of.type)
        for of in schema
    ]
    return pa.table(arrays, schema=schema)


def _windows(state: CurrentState, rows: int | None) -> list[IdWindow]:
    """Return ranges of Ids that together are all."""
    if not is_bulk(rows):
        return list(state.id_windows(MOST_RECORDS))
    records = state.table.count()
    at_once = RECORDS_OF_UNCOUNTED if rows is None else ROWS_AT_ONCE * records // max(rows, 1)
    return list(state.id_windows(min(MOST_RECORDS, max(FEWEST_RECORDS, at_once))))
