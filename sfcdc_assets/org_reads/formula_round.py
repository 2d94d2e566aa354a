"""One round over the formula fields of all entities that are due: what waited longest first, each on its own, within
the budget.

A round is beside all else: nothing that is landed, applied or copied waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache

from sfcdc_assets.lake.store.formula_notes import FormulaNote, FormulaNotes, note_formulas, read_formula_notes
from sfcdc_assets.lake.store.request_ledger import FORMULAS, note_ledger, read_ledger
from sfcdc_assets.lake.tables import current_state, formula_values
from sfcdc_assets.lake.tables.changed_records import last_batch
from sfcdc_assets.lake.tables.formula_values import FormulaValues
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.org_connection.request_budget import RequestBudget
from sfcdc_assets.org_connection.run_context import OrgRunContext, RunContext
from sfcdc_assets.org_reads.due_formulas import FormulaReport, Round
from sfcdc_assets.org_reads.formula_refresh import formulas_of, refresh_formulas
from sfcdc_assets.polls.due import interval_after
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.salesforce.errors import ORG_AWAY
from sfcdc_assets.salesforce.time_zone import day_began, user_time_zone

DAY_MS = 86_400_000


def due_entities(run: RunContext, notes: FormulaNotes | None = None) -> tuple[str, ...]:
    """Return the entities whose formulas it is time to look at, those that waited longest first. Makes no requests."""
    settings, now_ms = run.settings, clock.now_ms()
    entities = set(run.warehouse.entities(current_state.LAYER)) if settings.formulas else set()
    # What was read when the settings were others may not be kept.
    entities |= set(run.warehouse.entities(formula_values.LAYER))
    if not entities:
        return ()
    noted = (notes or read_formula_notes(run.warehouse)).entities
    last = {entity: noted.get(entity, FormulaNote()) for entity in entities if _is_wanted(run, entity)}

    def due_at(entity: str) -> int:
        note = last[entity]
        return note.looked_at_ms + interval_after(int(settings.formula_seconds * 1000), note.failures)

    due = (entity for entity, note in last.items() if due_at(entity) <= now_ms or note.looked_at_ms > now_ms)
    schemas, read = Schemas(run.warehouse), set(run.warehouse.entities(formula_values.LAYER))
    found = [entity for entity in due if _has_any(run, entity, last[entity], schemas, was_read=entity in read)]
    return tuple(sorted(found, key=lambda entity: (last[entity].looked_at_ms, entity)))


def _is_wanted(run: RunContext, entity: str) -> bool:
    return not run.settings.entities or entity in run.settings.entities


def _has_any(run: RunContext, entity: str, note: FormulaNote, schemas: Schemas, *, was_read: bool) -> bool:
    """Return whether formulas of the entity are read or withheld, or others were read before."""
    found = formulas_of(run, entity, note.refused, schemas)
    if found is not None and (found.names or found.withheld):
        return True
    values = FormulaValues.open(run.warehouse, entity) if was_read else None
    return values is not None and found is not None and values.fingerprint != found.fingerprint


def refresh_all(run: OrgRunContext, tell: Callable[[str], object] = str) -> Mapping[str, SfcdcError]:
    """Look at every entity that is due; returns what some of them failed with, which keeps no other from being read.

    `tell` is given a line for each entity. Raises what concerns all of them: an org that takes no more requests, or
    answers none.
    """
    notes = read_formula_notes(run.warehouse)
    due = due_entities(run, notes)
    if not due:
        return {}
    failed: dict[str, SfcdcError] = {}
    ledger, settings = read_ledger(run.warehouse), run.settings
    budget = RequestBudget(ledger, run.org, FORMULAS, settings.formula_percent, settings.snapshot_reserve_percent)
    look = _look(run, notes, budget)
    try:
        for entity in due:
            calls = run.org.session.calls_of_this_thread
            try:
                refused = notes.entities.get(entity, FormulaNote()).refused
                report = refresh_formulas(run, entity, look, refused)
            except ORG_AWAY:
                raise
            except SfcdcError as error:
                failed[entity] = error
                notes.entities[entity] = _of_failure(notes.entities.get(entity, FormulaNote()), error)
                tell(f"{entity}: its formulas could not be read. {error}")
            else:
                notes.entities[entity] = _of_report(report, clock.now_ms())
                tell(str(report))
            finally:
                budget.spend(run.org.session.calls_of_this_thread - calls)
    finally:
        note_formulas(run.warehouse, notes)
        note_ledger(run.warehouse, ledger, FORMULAS)
    return failed


def _look(run: OrgRunContext, notes: FormulaNotes, budget: RequestBudget) -> Round:
    """Note where all tables stand, and wait until the org's REST side shows what they have."""
    entities = run.warehouse.entities(current_state.LAYER)
    marks = {entity: batch for entity in entities if (batch := last_batch(run.warehouse, entity)) is not None}
    clock.sleep(run.settings.visibility_seconds)
    now_ms = clock.now_ms()
    now = utc(now_ms)

    @cache
    def began() -> datetime:
        if notes.time_zone is None or not 0 <= now_ms - notes.time_zone[1] < DAY_MS:
            notes.time_zone = (user_time_zone(run.org.session), now_ms)
        return day_began(notes.time_zone[0], now)

    return Round(marks, budget.left, began, now)


def _of_report(report: FormulaReport, now_ms: int) -> FormulaNote:
    return FormulaNote(
        now_ms,
        len(report.formulas),
        dict(report.withheld),
        epoch_ms(report.oldest) if report.oldest is not None else None,
        sum(report.postponed.values()),
        refused=dict(report.not_computed),
    )


def _of_failure(before: FormulaNote, error: SfcdcError) -> FormulaNote:
    return replace(before, looked_at_ms=clock.now_ms(), error=str(error), failures=before.failures + 1)
