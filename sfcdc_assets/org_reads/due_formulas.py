"""Read again what of an entity's formulas may have another value, as far as the budget goes, and commit it.

What changed is taken from the tables, the entity's own and those of the objects that its formulas read, on whatever
channel each of them is. Where a budget is not enough, the changes form a window that the next look goes on with, before
it follows newer ones: so no change is lost, and none keeps the others waiting for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.hashed_value import plain_arrow_type
from sfcdc_assets.formulas.affected_records import ChangedFields, affected_records
from sfcdc_assets.formulas.formula_columns import row_schema
from sfcdc_assets.formulas.rereads import Limits, Reason, RereadPlan, Values, plan_rereads
from sfcdc_assets.formulas.wanted_formulas import RefusedFormula, WantedFormulas
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.changed_records import changes_after, records_that_refer
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.earlier_formula_values import EarlierFormulaValues
from sfcdc_assets.lake.tables.erasure_receipts import NONE, ErasedRecords, erased_records
from sfcdc_assets.lake.tables.formula_referrers import NOW, paths_of, referrers, without_values
from sfcdc_assets.lake.tables.formula_values import FormulaValues, Window, name_of, values_of_formulas
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.formula_reads import read_formulas, rows_of_page
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.salesforce.bulk_pages import pages
from sfcdc_assets.salesforce.bulk_query import create_job, wait_for_job
from sfcdc_assets.snapshot.pages import rows_per_page

MOST_LISTED = 200_000
"""Records of one look that are read by their ids because of their age: their ids and times are held."""
IDS_PER_COMMIT = 20_000
IDS_PER_REQUEST, REQUESTS_OF_JOB = 2_000, 8
"""What reading costs: so many records by their ids, and a Bulk job before its pages."""


@dataclass(frozen=True)
class FormulaReport:
    """What was done for an entity: records whose values were read, those removed because the org does not show them,
    how many were read, or wait, for which reason, why single records could not be read, the formulas that are read and
    those that are withheld, when the oldest value was read, and those that the org does not compute."""

    entity: str
    formulas: Sequence[str] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    read: int = 0
    gone: int = 0
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    postponed: Mapping[Reason, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    oldest: datetime | None = None
    not_computed: Mapping[str, RefusedFormula] = field(default_factory=dict)

    def __str__(self) -> str:
        waiting = sum(self.postponed.values())
        said = [f"{counted(self.read, 'record')} read" if self.read else "nothing to read"]
        said += [f"{self.gone:,} removed"] if self.gone else []
        said += [f"{waiting:,} waiting for the next budget (SFCDC_FORMULA_PERCENT)"] if waiting else []
        said += [f"{len(self.refused):,} could not be read ({min(self.refused.values())})"] if self.refused else []
        said += [f"{name} is withheld: {why}" for name, why in self.withheld.items()]
        return f"{self.entity}: {counted(len(self.formulas), 'formula')}, {', '.join(said)}"


@dataclass(frozen=True)
class Round:
    """What holds for all entities of one round. `marks`: the last batch of each entity's tables, taken so long before
    that the org shows all that it has; `budget`: how many requests may be made; `day_began`: when the user's day did;
    `now`: a time before the first request."""

    marks: Mapping[str, int]
    budget: Callable[[], int]
    day_began: Callable[[], datetime]
    now: datetime


class DueFormulas:
    """One look at an entity. `parts`: columns that the org computes in one query."""

    def __init__(
        self,
        run: OrgRunContext,
        entity: str,
        wanted: WantedFormulas,
        look: Round,
        parts: Sequence[Sequence[Column]],
    ) -> None:
        self._run, self._entity, self._wanted, self._look, self._parts = run, entity, wanted, look, parts
        self._warehouse = run.warehouse
        self._marks = {name: look.marks[name] for name in {entity, *wanted.objects} if name in look.marks}
        self._read = self._gone = 0
        self._refused: dict[str, str] = {}
        self._hidden: tuple[ErasedRecords, Mapping[str, frozenset[str]]] = (NONE, {})

    def done(self) -> FormulaReport:
        """Read what is due, and say what it was."""
        columns, fingerprint = self._wanted.columns, self._wanted.fingerprint
        values = values_of_formulas(self._warehouse, self._entity, columns, fingerprint, self._marks, self._look.now)
        resumed = values.window(self._marks)
        window = resumed or Window(self._look.now, self._marks)
        changed, parents = self._changed(values, resumed)
        living, missing, gone = self._compared(values)
        if gone:
            self._commit(None, gone, {}, resumed)
            self._gone += len(gone)
            values = self._opened()
        plan = self._plan(self._facts(values, living, missing), changed, parents)
        waiting = {*changed, *parents}
        moved = {name: batch for name, batch in window.up_to.items() if batch != values.followed(name)}
        if plan.whole:
            self._read_whole(window.up_to)
        elif plan.ids:
            self._read_ids(plan.ids, waiting, window)
        elif not waiting and (moved or resumed is not None):
            self._commit(None, (), moved, None)
        return FormulaReport(
            self._entity,
            self._wanted.names,
            self._wanted.withheld,
            self._read,
            self._gone,
            plan.reasons,
            plan.postponed,
            self._refused,
            self._opened().oldest(),
            self._wanted.refused,
        )

    def _changed(self, values: FormulaValues, resumed: Window | None) -> tuple[list[str], list[str]]:
        """Return the records that changed since the last time, and those of which a parent did, in fields that formulas
        read; without those that were read since a window that is open began."""
        formulas, found = self._wanted.computed_from, dict[str, Mapping[str, ChangedFields]]()
        for name, mark in self._marks.items():
            after = values.followed(name) if values.follows(name) else mark
            found[name] = self._relevant(name, changes_after(self._warehouse, name, after))
        own = found.get(self._entity, {})
        changed = [each for each, fields in own.items() if fields is None or fields & formulas.own or formulas.unseen]
        parents = affected_records(self._entity, formulas, found, partial(records_that_refer, self._warehouse))
        read = values.read_since(resumed.began) if resumed is not None and (changed or parents) else set()
        return [each for each in changed if each not in read], sorted(parents - {*changed, *read})

    def _relevant(self, name: str, changes: Mapping[str, ChangedFields]) -> Mapping[str, ChangedFields]:
        """Return the changes with any field for one that formulas read and the object's table does not have: which of
        the others it changes with is not known."""
        formulas = self._wanted.computed_from
        read = {field for entity, field in formulas.reads(self._entity) if entity == name}
        current = CurrentState.open(self._warehouse, name) if changes else None
        if current is None or read <= set(current.schema.names):
            return changes
        return dict.fromkeys(changes)

    def _compared(self, values: FormulaValues) -> tuple[int, list[str], list[str]]:
        """Return how many living records there are, those without a value, and those with one that are gone."""
        current = CurrentState.open(self._warehouse, self._entity)
        if current is None:
            return 0, [], values.ids().to_list()
        parts = (pl.DataFrame(part) for part in current.table.batches(["Id"], "not _is_deleted"))
        living = pl.concat([pl.Series("Id", [], pl.String), *(part["Id"].cast(pl.String) for part in parts)])
        known = values.ids()
        missing = living.filter(~living.is_in(known.implode()))
        gone = known.filter(~known.is_in(living.implode()))
        return len(living), missing.to_list(), gone.to_list()

    def _facts(self, values: FormulaValues, living: int, missing: Sequence[str]) -> Values:
        now, days = self._look.now, self._run.settings.formula_days
        began = self._day_began() or now
        found = values.values(living, now=now, day_began=began, too_old=now - timedelta(days=days), most=MOST_LISTED)
        return replace(found, oldest=(*((each, None) for each in missing), *found.oldest))

    def _day_began(self) -> datetime | None:
        return self._look.day_began() if self._wanted.computed_from.names_time else None

    def _plan(self, facts: Values, changed: Sequence[str], parents: Sequence[str]) -> RereadPlan:
        """Return what to read. What the org allows is asked for only where something is due."""
        age, began = timedelta(days=self._run.settings.formula_days), self._day_began()
        limits = Limits(0, age, IDS_PER_REQUEST, REQUESTS_OF_JOB, rows_per_page(self._wanted.columns))
        plan = plan_rereads(facts, changed, parents, limits, now=self._look.now, day_began=began)
        if not plan.postponed:
            return plan
        limits = replace(limits, requests=self._look.budget())
        return plan_rereads(facts, changed, parents, limits, now=self._look.now, day_began=began)

    def _read_ids(self, ids: Sequence[str], waiting: set[str], window: Window) -> None:
        """Read these records, and commit some at a time; the last commit ends the window if nothing is left `waiting`
        in it."""
        for start in range(0, len(ids), IDS_PER_COMMIT):
            some = ids[start : start + IDS_PER_COMMIT]
            began = _now()
            read = read_formulas(self._run.org.session, self._entity, some, self._parts, began)
            waiting -= {*some} - {*read.left}
            self._refused |= read.refused
            is_last = start + len(some) == len(ids)
            followed, rest = (window.up_to, None) if is_last and not waiting else ({}, window)
            self._commit(read.rows, read.gone, followed, rest)
            self._read += read.rows.num_rows
            self._gone += len(read.gone)

    def _read_whole(self, followed: Mapping[str, int]) -> None:
        """Read the entity by a Bulk job, and commit each page; what it does not bring is gone."""
        session, columns, began = self._run.org.session, self._wanted.columns, _now()
        resumed = self._opened().window(self._marks)
        if len(self._parts) > 1:
            self._read_living_in_parts(resumed)
            self._gone += self._end_whole_read(began, followed)
            return
        soql = f"SELECT {', '.join(column.name for column in columns)} FROM {self._entity}"
        job = wait_for_job(session, create_job(session, self._entity, soql, include_deleted=False).id)
        types = pa.schema([(column.name, plain_arrow_type(column)) for column in columns])
        for page in pages(session, job, types, max_records=rows_per_page(columns)):
            self._refused |= page.unreadable
            rows = rows_of_page(page.table, columns, began)
            if rows.num_rows:
                self._commit(rows, (), {}, resumed)
            self._read += rows.num_rows
        self._gone += self._end_whole_read(began, followed)

    def _read_living_in_parts(self, window: Window | None) -> None:
        """Read all records by their ids, because no job would bring all formulas of one."""
        current = CurrentState.open(self._warehouse, self._entity)
        ids = [each.decode() for each in current.living_ids()] if current is not None else []
        for start in range(0, len(ids), IDS_PER_COMMIT):
            some = ids[start : start + IDS_PER_COMMIT]
            read = read_formulas(self._run.org.session, self._entity, some, self._parts, _now())
            self._refused |= read.refused
            if read.rows.num_rows:
                self._commit(read.rows, (), {}, window)
            self._read += read.rows.num_rows

    @retry_on_conflict
    def _end_whole_read(self, began: datetime, followed: Mapping[str, int]) -> int:
        return self._opened().end_whole_read(began, followed, self._wanted.fingerprint)

    @retry_on_conflict
    def _commit(
        self, rows: pa.Table | None, gone: Sequence[str], followed: Mapping[str, int], window: Window | None
    ) -> None:
        earlier = EarlierFormulaValues(self._warehouse, self._entity, row_schema(self._wanted.columns))
        values, erased = self._opened(), erased_records(self._warehouse)
        hidden = self._hidden_by(erased)
        kept = row_schema(self._wanted.columns).empty_table() if rows is None else erased.without(rows)
        kept = without_values(kept, hidden)
        before = values.rows_of([*kept["Id"].to_pylist(), *gone])
        # A value may have been read before the tables showed that the record refers to an erased one.
        earlier.keep(without_values(erased.without(before), hidden), kept)
        values.commit(kept, gone, followed, window=window)

    def _hidden_by(self, erased: ErasedRecords) -> Mapping[str, frozenset[str]]:
        """Return the records by each formula whose value would show a record that was erased and is in the org all
        the same."""
        if self._hidden[0] is not erased:
            shown = {
                name: referrers(self._warehouse, self._entity, paths_of(formula), erased.keeps_out, NOW)
                for name, formula in self._wanted.by_name.items()
            }
            self._hidden = erased, shown
        return self._hidden[1]

    def _opened(self) -> FormulaValues:
        """Return the newest snapshot. Raises `ConcurrentCommit` where another process reads other formulas."""
        values = FormulaValues.open(self._warehouse, self._entity)
        if values is None or values.fingerprint != self._wanted.fingerprint:
            raise ConcurrentCommit(name_of(self._entity), "another process reads other formulas of the entity")
        return values


def _now() -> datetime:
    return clock.now()
