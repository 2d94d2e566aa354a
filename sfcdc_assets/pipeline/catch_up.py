"""Catch up: drain the channels, bring each entity up to date, read back what is in doubt, note the cut.

The order of a run's steps, without a scheduler: a run under Dagster and a test that replays lives of an org are the
same but for who is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sfcdc_assets import clock
from sfcdc_assets.lake.consistent_cuts import Cut
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.applying.apply_changes import ApplyReport
from sfcdc_assets.pipeline.applying.note_cut import note_cut
from sfcdc_assets.pipeline.entities import EntityState, entity_states, seen_by_privacy
from sfcdc_assets.pipeline.landing.land import LandingReport
from sfcdc_assets.pipeline.landing.lander import Lander
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.org_reads.read_back import ReadBackReport, read_back_doubts
from sfcdc_assets.pipeline.org_reads.stale_reads import longest_lag_ms
from sfcdc_assets.pipeline.org_reads.watermark import Watermarks
from sfcdc_assets.pipeline.schemas.described import follow_describe
from sfcdc_assets.pipeline.schemas.evolve import seen_by_layout

ROUNDS = 4
"""The most times a run drains: each round after the first follows a reading of records in doubt."""

IDLE_DESCRIBE_MS = 86_400_000
"""How often an object without changes is described: its fields may change all the same."""

Apply = Callable[[EntityState, int], ApplyReport]
"""Applies an entity's events up to a position."""
EachEntity = Callable[[Iterable[EntityState], Callable[[EntityState], None]], None]
"""Does a work for each entity; decides what becomes of those that fail."""


class ApplyListener:
    """Who is told of each step. This one keeps it to itself."""

    def drained(self, report: LandingReport) -> None:
        """A channel was drained."""

    def brought_up_to_date(self, report: ApplyReport, read: ReadBackReport | None, healed_after: float | None) -> None:
        """An entity was; `healed_after`: the age in seconds of the oldest doubt that was read back, if any was."""

    def cut(self, cut: Cut) -> None:
        """The run reached a new cut."""


class CatchUp:
    """One run over `entities` (entity -> channel; `known` are all that there are).

    Of them only those that have work are worked on, or all with `every_entity`.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        lander: Lander,
        entities: Mapping[str, str],
        known: Mapping[str, str],
        apply: Apply,
        listener: ApplyListener,
        each_entity: EachEntity,
        *,
        every_entity: bool,
        visibility_seconds: float,
        describe_seconds: float,
        clock_ms: Callable[[], int] = clock.now_ms,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self._warehouse = warehouse
        self._org = org
        self._entities = dict(entities)
        self._known = dict(known)
        self._apply = apply
        self._listener = listener
        self._each_entity = each_entity
        self._every_entity = every_entity
        self._lag_ms = longest_lag_ms(visibility_seconds)
        self._describe_ms = int(describe_seconds * 1000)
        self._clock_ms = clock_ms
        self._sleep = sleep
        self._lander = lander
        self._watermarks = Watermarks(warehouse, lander, visibility_seconds, clock_ms=clock_ms, sleep=sleep)
        self._drained: dict[str, tuple[int, int]] = {}
        """Channel -> complete position, and the time before which all that was committed is at or before it."""
        self._read_back = False

    def run(self) -> None:
        """Do it. Raises what a drain raises, and what `each_entity` makes of an entity that failed.

        A row read back may be ahead of what was drained before, so the stream is drained once more after a reading.
        """
        for _ in range(ROUNDS):
            self._read_back = False
            self._drain()
            states = entity_states(self._warehouse, self._entities, self._clock_ms())
            for state in states:
                if not state.has_work:
                    self._follow_describe(state.entity, max(self._describe_ms, IDLE_DESCRIBE_MS))
            states = seen_by_layout(self._warehouse, states, self._org.privacy)
            states = seen_by_privacy(self._warehouse, states, self._org.privacy)
            worked_on = [state for state in states if state.has_work or self._every_entity]
            self._each_entity(worked_on, self._bring_up_to_date)
            if not self._read_back:
                break
        self._note_cuts()

    def _drain(self) -> None:
        for channel in dict.fromkeys(self._entities.values()):
            report = self._lander.land(channel)
            self._drained[channel] = (report.complete_position, report.complete_through_ms)
            self._listener.drained(report)

    def _bring_up_to_date(self, state: EntityState) -> None:
        self._follow_describe(state.entity, self._describe_ms)
        up_to = self._drained[state.channel][0]
        report = self._apply(state, up_to)
        read = None
        if report.open_doubts:
            read = read_back_doubts(
                self._warehouse,
                self._org,
                state.entity,
                state.channel,
                self._watermarks,
                lag_ms=self._lag_ms,
                clock_ms=self._clock_ms,
                sleep=self._sleep,
            )
        if read is not None and (read.found or read.gone):
            self._read_back = True
            healed_after = (self._clock_ms() - (read.oldest_opened_at or 0)) / 1000
            self._listener.brought_up_to_date(self._apply(state, up_to), read, healed_after)
        else:
            self._listener.brought_up_to_date(report, read, None)

    def _follow_describe(self, entity: str, every_ms: int) -> None:
        follow_describe(self._warehouse, self._org, entity, self._clock_ms(), every_ms)

    def _note_cuts(self) -> None:
        for channel, (position, through_ms) in self._drained.items():
            noted = note_cut(self._warehouse, self._known, channel, position, through_ms, self._clock_ms())
            if noted.cut is not None:
                self._listener.cut(noted.cut)
