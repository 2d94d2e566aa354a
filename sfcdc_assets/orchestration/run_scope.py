"""What the steps of one run have in common: connections that stay open from step to step, and values in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import dagster as dg

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.heartbeat import Heartbeat
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.runtime.errors import SfcdcError

T = TypeVar("T")


class NotInMemory(SfcdcError):
    """A step was started again without the steps before it."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(
            f"What the steps before found ({wanted}) is not in this process: the steps of a run hand it on in memory. "
            "Launch the job again as a whole; what is applied already is not applied again."
        )


class RunScope:
    """Keeps what a step opens until the run is over: a login and a subscription for all steps, not one for each; and
    what a step has found, for those that follow. Nothing of it is written, and nothing outlives the run.

    No IO manager does that: Dagster logs each value that one is given or asked for, a third of all events of a run.
    """

    def __init__(self) -> None:
        """Nothing is open yet, and nothing found."""
        self._stack = ExitStack()
        self._found: dict[type, Any] = {}

    @classmethod
    @contextmanager
    def of_run(cls, assets: OrgAssets, run_id: str | None, log: dg.DagsterLogManager | None) -> Iterator[RunScope]:
        """Give that of a run, which says from now on that it lives; closes all at the end, last opened first. What
        fails then fails no run: its work is done, and what is not landed comes again. A run that is interrupted waits
        for nothing."""
        scope, heartbeat = cls(), None
        if run_id is not None:
            heartbeat = Heartbeat(Warehouse(assets.settings().warehouse), run_id)
            heartbeat.begin()
        try:
            yield scope
        finally:
            try:
                scope._stack.__exit__(*sys.exc_info())
            except SfcdcError as error:
                if log is not None:
                    log.warning(f"A connection could not be closed well: {error}")
            finally:
                if heartbeat is not None:
                    heartbeat.end()

    def hand_on(self, found: object) -> None:
        """Keep it for the steps that follow, one value of each class."""
        self._found[type(found)] = found

    def handed_on(self, kind: type[T]) -> T:
        """Return the value of this class that a step before has handed on. Raises `NotInMemory`."""
        if kind not in self._found:
            raise NotInMemory(kind.__name__)
        found: T = self._found[kind]
        return found

    @contextmanager
    def kept_if_done(self) -> Iterator[ExitStack]:
        """Close what is opened in this block when the run ends, or at once when the block raises."""
        with ExitStack() as opened:
            yield opened
            self._stack.push(opened.pop_all())
