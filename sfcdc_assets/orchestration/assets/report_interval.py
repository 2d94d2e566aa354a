"""How often a partition is reported while a run, or a stream, goes on: every five minutes, in sum.

A batch every five seconds is 17,000 a day, and each event is written twice into Dagster's event log: what a person
looks at does not change so often, and a page of a run that has all of them takes a minute to open.
"""

from __future__ import annotations

from collections.abc import Hashable

from sfcdc_assets.runtime import clock

EVERY_SECONDS = 300.0
"""The least time between two reports of one thing."""


class Pace:
    """When each thing was last reported."""

    def __init__(self) -> None:
        self._reported: dict[Hashable, float] = {}

    def is_due(self, what: Hashable, every_seconds: float | None = None) -> bool:
        """Return whether it was not reported within this time; by default, `EVERY_SECONDS`."""
        least = EVERY_SECONDS if every_seconds is None else every_seconds
        return clock.current().monotonic() - self._reported.get(what, float("-inf")) >= least

    def reported(self, what: Hashable) -> None:
        """Note that it is reported now."""
        self._reported[what] = clock.current().monotonic()
