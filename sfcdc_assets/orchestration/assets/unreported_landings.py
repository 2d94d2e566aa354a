"""What ticks have landed and not reported: of each entity in sum, now and then while the stream goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf

from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.assets.report_interval import Pace
from sfcdc_assets.runtime import clock

QUIET_SECONDS = 10.0
"""After so much silence of the stream nothing is held any more. A run that follows the stream waits for longer before
it ends, so that its last report of the tables comes after that of what they were made of."""

ALIVE_SECONDS = 600.0
"""How often a channel is reported on which nothing happens: Dagster's freshness goes by the last report."""


@dataclass
class HeldLandings:
    """Of one channel, in the process that ticks. What a process that dies had held is missing in the sums of landed
    events alone: positions are those of the next report."""

    quiet_seconds: float = QUIET_SECONDS
    pace: Pace = field(default_factory=Pace)
    _events: Counter[str] = field(default_factory=Counter)
    _waited: dict[str, float] = field(default_factory=dict)
    _sums: LandingReport | None = None
    """Of the channel since its last report."""
    _last: LandingReport | None = None
    _landed_at: float = inf
    """Never, as yet."""
    _said: tuple[int, int] | None = None
    """The channel's positions, as they were reported last."""

    def add(self, report: LandingReport) -> None:
        """Add a reading of the channel."""
        if report.count:
            self._landed_at = clock.current().monotonic()
        self._events += report.events
        for entity, seconds in report.waited.items():
            self._waited[entity] = max(seconds, self._waited.get(entity, seconds))
        before, self._last = self._sums, report
        self._sums = replace(
            report,
            events=report.events + (before.events if before else Counter()),
            quarantined=report.quarantined + (before.quarantined if before else 0),
            deliveries=report.deliveries + (before.deliveries if before else 0),
            repeats=report.repeats + (before.repeats if before else 0),
            api_requests=report.api_requests + (before.api_requests if before else 0),
            lost_checkpoint=report.lost_checkpoint or (before.lost_checkpoint if before else None),
        )

    @property
    def has_due_events(self) -> bool:
        """Whether events are due that were held."""
        return any(map(self._is_due, self._events))

    def take_entities(self, *, at_once: bool) -> LandingReport | None:
        """Return the sums of entities that are due. `at_once`: all of them."""
        due = [entity for entity in self._events if at_once or self._is_due(entity)]
        if self._last is None or not due:
            return None
        for entity in due:
            self.pace.reported(entity)
        events = Counter({entity: self._events.pop(entity) for entity in due})
        waited = {entity: self._waited.pop(entity) for entity in due if entity in self._waited}
        return replace(self._last, events=events, waited=waited)

    def take_channel(self, *, at_once: bool) -> LandingReport | None:
        """Return the channel's sums, if they are due."""
        if self._sums is None or not (at_once or self._sums.lost_checkpoint or self._is_channel_due(self._sums)):
            return None
        taken, self._sums = self._sums, None
        self._said = taken.position, taken.complete_position
        self.pace.reported(None)
        return taken

    def take_sign_of_life(self) -> LandingReport | None:
        """Return the channel's sums, if nothing was said of it for so long that it would be taken for stale."""
        if self._sums is None or not self.pace.is_due(None, ALIVE_SECONDS):
            return None
        return self.take_channel(at_once=True)

    def _is_channel_due(self, sums: LandingReport) -> bool:
        """Whether it is, by what is new of it: looks at a channel that rests go on twice a minute."""
        is_new = sums.count or sums.deliveries or (sums.position, sums.complete_position) != self._said
        return self._is_due(None) if is_new else self.pace.is_due(None, ALIVE_SECONDS)

    def _is_due(self, what: str | None) -> bool:
        return self.pace.is_due(what) or clock.current().monotonic() - self._landed_at >= self.quiet_seconds
