"""What keeps the warehouse in order beside the channels, in this process: payloads past their retention are dropped,
small files packed, formula fields read, views written.

`keep_house` does once what is due; `Housekeeping` does it beside a watch for as long as it goes on. No channel depends
on any of it, nor one of these on another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import dagster as dg

from sfcdc_assets.cli.local_dagster.channel_turn import failure_of
from sfcdc_assets.cli.local_dagster.formula_reading import FormulaReading
from sfcdc_assets.cli.local_dagster.instance import dagster_instance
from sfcdc_assets.cli.local_dagster.local_runs import run_job
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.payload_retention import droppable
from sfcdc_assets.orchestration.assets.kept_views import VIEWS, build_kept_views
from sfcdc_assets.orchestration.jobs import DROP_PAYLOADS, PACK, READ_FORMULAS
from sfcdc_assets.orchestration.jobs.formulas import why_not_read
from sfcdc_assets.orchestration.jobs.packing import LOOK_SECONDS, why_not_packed
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.sql.kept_views import are_kept, stand

Report = Callable[[str], None]

PAYLOADS, SMALL_FILES, KEPT_VIEWS = "Payloads", "Small files", "The views in files"
"""What a failure names."""

INSTANCE_SECONDS = 3_600.0
"""Without DAGSTER_HOME an instance is in memory, and grows with each run: a watch has another one so often."""


def drop_payloads(instance: dg.DagsterInstance, settings: Settings, report: Report) -> None:
    """Drop payloads past their retention, if there are any. Raises the run's failure, or why it could not be found out
    whether there are any."""
    days = settings.payload_retention_days
    if days is None or not droppable(Warehouse(settings.warehouse), days, clock.now_ms()):
        return
    failed = run_job(instance, DROP_PAYLOADS)
    report("payloads past their retention are dropped")
    if failed is not None:
        raise failed


def pack(instance: dg.DagsterInstance, settings: Settings, report: Report) -> None:
    """Pack small files, if there are many. A run that failed is reported and stops nothing: its next one waits for
    longer."""
    if why_not_packed(ASSETS, instance, Warehouse(settings.warehouse), settings.payload_retention_days) is None:
        failed = run_job(instance, PACK)
        report("small files are packed" if failed is None else str(failed))


def read_formulas(instance: dg.DagsterInstance, settings: Settings, report: Report) -> None:
    """Read the formula fields that are due, if any are. Raises the run's failure."""
    if why_not_read(ASSETS, instance, Warehouse(settings.warehouse), settings) is not None:
        return
    failed = run_job(instance, READ_FORMULAS)
    if failed is not None:
        raise failed
    report("formula fields are read")


def write_views(
    instance: dg.DagsterInstance, settings: Settings, report: Report, before: str | None = None
) -> str | None:
    """Write the views that are kept in files, if the settings name any and the cut is not the one of `before`; returns
    the cut that they are of now. A run that failed is reported and stops nothing: the next one writes them. Raises what
    reading the cuts does."""
    found = stand(Warehouse(settings.warehouse)) if are_kept(settings) else None
    if found is None or found == before:
        return before
    failed = run_job(instance, VIEWS, definitions=build_kept_views(ASSETS))
    report("the views are written" if failed is None else str(failed))
    return found if failed is None else before


def keep_house(instance: dg.DagsterInstance, settings: Settings, report: Report) -> Sequence[SfcdcError]:
    """Do once what is due; return what failed of it, whatever the rest came to."""
    return [
        failure
        for what, work in (
            (PAYLOADS, drop_payloads),
            (SMALL_FILES, pack),
            ("Formula fields", read_formulas),
            (KEPT_VIEWS, write_views),
        )
        if (failure := _failure(what, partial(work, instance, settings, report))) is not None
    ]


class Housekeeping:
    """What a watch does beside its channels, and the instance of Dagster that it does it with, a new one each hour."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings = settings
        self._report = report
        self._formulas = FormulaReading(settings, report)
        self._held = ExitStack()
        self._instance: dg.DagsterInstance | None = None
        self._views_of: str | None = None
        self._said: dict[str, str] = {}
        """What each thing failed with last."""
        self._ends_at = self._look_at = 0.0

    def instance(self) -> dg.DagsterInstance:
        """Return the instance of this hour."""
        now = clock.current().monotonic()
        if self._instance is None or now >= self._ends_at:
            self._held.close()
            self._instance = self._held.enter_context(dagster_instance())
            self._ends_at, self._look_at = now + INSTANCE_SECONDS, now
            self._try(PAYLOADS, partial(drop_payloads, self._instance, self._settings, self._report))
        return self._instance

    def look(self) -> None:
        """Do what is due."""
        instance, now = self.instance(), clock.current().monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._try(SMALL_FILES, partial(pack, instance, self._settings, self._report))
            self._try(KEPT_VIEWS, partial(self._write_views, instance))
            self._formulas.look()

    def _write_views(self, instance: dg.DagsterInstance) -> None:
        self._views_of = write_views(instance, self._settings, self._report, self._views_of)

    def _try(self, what: str, work: Callable[[], object]) -> None:
        """Report what fails, once: what fails again in the same way is no news."""
        failure = _failure(what, work)
        said = "" if failure is None else str(failure)
        if said and said != self._said.get(what):
            self._report(said)
        self._said[what] = said

    def __enter__(self) -> Housekeeping:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()


def _failure(what: str, work: Callable[[], object]) -> SfcdcError | None:
    outcome = outcome_of(work)
    return failure_of(what, outcome) if isinstance(outcome, Exception) else None
