"""Bring an entity's formula values up to date: which formulas are read, what the org refuses of them and for how long
they are withheld, and the reading of what is due (`due_formulas`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.formulas.wanted_formulas import NONE_REFUSED, RefusedFormula, WantedFormulas, wanted_formulas
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.formula_values import FormulaValues, values_of_formulas
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.org_connection.run_context import OrgRunContext, RunContext
from sfcdc_assets.org_reads.due_formulas import DueFormulas, FormulaReport, Round
from sfcdc_assets.org_reads.refused_formulas import computed_formulas
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import BulkJobFailed, QueryRefused
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.describe_cache import follow_describes
from sfcdc_assets.schema_evolution.table_columns import newest_describe
from sfcdc_assets.snapshot.soql import IdWindow

RECORDS_TRIED = 3
"""Of so many records the org is asked for formulas one by one where it refuses them together."""
REFUSED_MS = 86_400_000
"""After so long a formula is tried again that the org did not compute."""


def formulas_of(
    run: RunContext, entity: str, refused: Mapping[str, RefusedFormula], schemas: Schemas | None = None
) -> WantedFormulas | None:
    """Return which formulas of an entity are read, as it was last described; None where it never was. `refused`: those
    that the org did not compute before."""
    known = schemas or Schemas(run.warehouse)

    def describe(name: str) -> ObjectDescription | None:
        return newest_describe(known.of_entity(name))

    described = describe(entity)
    if described is None:
        return None
    return wanted_formulas(described, describe, run.settings.formulas, run.privacy, refused)


def refresh_formulas(
    run: OrgRunContext, entity: str, look: Round, refused: Mapping[str, RefusedFormula] = NONE_REFUSED
) -> FormulaReport:
    """Read what is due of an entity's formulas. `refused`: those that the org did not compute before; they are tried
    again once in a day.

    Where the org does not know a formula any more, the object is described again, once. Where it computes not all in
    one query, they are read in parts, and one that it refuses alone is withheld. Raises `QueryRefused` with the org's
    words where it is none of this, `EntityNotReadable`, and the session's errors; what was committed stays.
    """
    refused = _still_refused(run, entity, refused)
    wanted = formulas_of(run, entity, refused)
    try:
        return _refreshed(run, entity, wanted, look)
    except (QueryRefused, BulkJobFailed):
        follow_describes(run, [entity], 0)
        again = formulas_of(run, entity, refused)
        if again is None or wanted is None:
            raise
        if again.fingerprint != wanted.fingerprint:
            return _refreshed(run, entity, again, look)
        found = computed_formulas(run.org.session, entity, again.columns, _some_records(run, entity))
        if len(found.parts) == 1 and not found.refused:
            raise
        refused = {**refused, **_noted(run, entity, found.refused)}
        return _refreshed(run, entity, formulas_of(run, entity, refused), look, found.parts)


def _still_refused(
    run: OrgRunContext, entity: str, refused: Mapping[str, RefusedFormula]
) -> Mapping[str, RefusedFormula]:
    """Return what the org still does not compute of what it refused, which it is asked for once in a day."""
    now_ms = clock.now_ms()
    due = {name for name, each in refused.items() if not 0 <= now_ms - each.at_ms < REFUSED_MS}
    every = formulas_of(run, entity, NONE_REFUSED) if due else None
    if every is None:
        return refused
    columns = [each for each in every.columns[1:] if each.name in due]
    records = _some_records(run, entity)
    if not columns or not records:
        return refused
    found = computed_formulas(run.org.session, entity, [every.columns[0], *columns], records)
    others = {name: each for name, each in refused.items() if name not in due}
    return {**others, **_noted(run, entity, found.refused)}


def _noted(run: OrgRunContext, entity: str, refused: Mapping[str, str]) -> dict[str, RefusedFormula]:
    described, now_ms = newest_describe(Schemas(run.warehouse).of_entity(entity)), clock.now_ms()
    texts = {each.name: each.calculated_formula for each in described.fields} if described else {}
    return {name: RefusedFormula(texts.get(name), why, now_ms) for name, why in refused.items()}


def _some_records(run: OrgRunContext, entity: str) -> list[str]:
    """Return a few living records: what is refused of all of them is so for no fault of one."""
    current = CurrentState.open(run.warehouse, entity)
    return current.first_living(IdWindow(), RECORDS_TRIED) if current is not None else []


def _refreshed(
    run: OrgRunContext,
    entity: str,
    wanted: WantedFormulas | None,
    look: Round,
    parts: Sequence[Sequence[Column]] = (),
) -> FormulaReport:
    if wanted is None or entity not in look.marks:
        return FormulaReport(entity)
    if not wanted.names:
        if FormulaValues.open(run.warehouse, entity) is not None:
            # What was read before may not be kept, or is not wanted any more.
            values_of_formulas(run.warehouse, entity, wanted.columns, wanted.fingerprint, {}, look.now)
        return FormulaReport(entity, withheld=wanted.withheld, not_computed=wanted.refused)
    return DueFormulas(run, entity, wanted, look, parts or (wanted.columns,)).done()
