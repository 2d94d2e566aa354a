"""What the steps of the job `sync` hand on to each other, in one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfcdc_assets.apply.apply_changes import Ready
from sfcdc_assets.apply.catch_up import Applied, CatchUp
from sfcdc_assets.apply.follow_run import Following
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.orchestration.assets.reports import RunReports
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.runtime.concurrency import outcome_of


@dataclass(frozen=True)
class StepLanded:
    """A run under way, every entity that is known with its channel, and those that have work."""

    run: OrgRunContext
    known: Mapping[str, str]
    catch_up: CatchUp
    reports: RunReports
    states: Mapping[str, EntityState]
    following: Following | None
    checks_after: str | None = None
    """The run that this one takes over from: checks are evaluated once more when it has evaluated its own."""
    applied: dict[str, Applied] = field(default_factory=dict)
    """What has become of those that are done."""
    failed: set[str] = field(default_factory=set)
    """Those that are given up in this run."""

    @property
    def goes_on(self) -> bool:
        """Whether the step `follow` is still to come, which reports what is held back until then: it is left out where
        an entity has failed."""
        return self.following is not None and not self.failed

    def apply_reads(self) -> dict[str, Exception]:
        """Apply what was read back of suspect records; the entities that this stopped, with the reason."""
        stopped: dict[str, Exception] = {}
        for entity, found in self.catch_up.apply_reads():
            if isinstance(found, Exception):
                stopped[entity] = found
            else:
                self.applied[entity] = found
        return stopped

    def cut_without_the_failed(self) -> Mapping[str, Exception]:
        """Apply what was read back and note the cut when every entity has had its turn and some failed: Dagster skips
        the steps after them. Return the entities that this stopped. What goes wrong is logged: the run fails anyway,
        for a reason that matters more."""
        if not self.failed or len(self.applied) + len(self.failed) < len(self.states):
            return {}
        stopped = outcome_of(self.apply_reads)
        if isinstance(stopped, Exception):
            self.reports.log.warning(f"What was read back is not applied: {stopped}")
            stopped = {}
        for entity, error in stopped.items():
            self.reports.log.warning(f"{entity}: what was read back is not applied: {error}")
        noted = outcome_of(self.catch_up.finish, list(self.applied.values()), {*self.failed, *stopped})
        if isinstance(noted, Exception):
            self.reports.log.warning(f"No consistent cut was noted: {noted}")
        return stopped


@dataclass(frozen=True)
class PreparedEntities:
    """What entities share is done: each one's part, or what it failed with."""

    of: dict[str, Ready]
