"""Formula fields beside a watch: read by a thread of their own, so that no channel waits for them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.run_context import OrgRunContext, RunContext
from sfcdc_assets.org_reads.formula_round import due_entities, refresh_all
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.settings.settings import Settings


class FormulaReading:
    """Reads what is due, one round at a time. The end of the process ends it; what was committed stays."""

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self._run = RunContext(warehouse=Warehouse(settings.warehouse), settings=settings)
        self._report = report
        self._thread: Thread | None = None
        self._said = ""

    def look(self) -> None:
        """Begin a round where an entity is due and none is under way."""
        if self._thread is not None and self._thread.is_alive():
            return
        due = outcome_of(due_entities, self._run)
        if isinstance(due, Exception):
            self._say(str(due))
        elif due:
            self._thread = clock.current().start_thread("formula fields", self._round)

    def _round(self) -> None:
        found = outcome_of(self._read)
        if isinstance(found, Exception):
            self._say(str(found))
        else:
            self._say("; ".join(f"{entity}: {error}" for entity, error in found.items()))

    def _read(self) -> dict[str, Exception]:
        with open_org(self._run.warehouse, self._run.settings) as org:
            return dict(refresh_all(OrgRunContext.of(self._run, org)))

    def _say(self, what: str) -> None:
        """Once: what fails again in the same way is no news."""
        if what and what != self._said:
            self._report(f"formula fields: {what}")
        self._said = what
