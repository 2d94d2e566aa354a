"""Catch up: drain the channels, bring each entity up to date, read back what is in doubt, note the cut.

The order of a run's steps, without a scheduler: a run under Dagster and a test that replays lives of an org are the
same but for who is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sfcdc_assets import clock
from sfcdc_assets.lake.consistent_cuts import Cut
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.pipeline.applying.apply_changes import ApplyReport, ToApply
from sfcdc_assets.pipeline.applying.note_cut import note_cut
from sfcdc_assets.pipeline.entities import EntityState, entity_states
from sfcdc_assets.pipeline.following import Following
from sfcdc_assets.pipeline.landing.land import LandingReport
from sfcdc_assets.pipeline.landing.lander import Lander
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.org_reads.read_back import ReadBackReport, read_back_doubts
from sfcdc_assets.pipeline.org_reads.stale_reads import longest_lag_ms
from sfcdc_assets.pipeline.org_reads.watermark import Watermarks
from sfcdc_assets.pipeline.schemas.described import follow_describe, is_to_be_described

ROUNDS = 4
"""The most times a run drains: each round after the first follows a reading of records in doubt."""

IDLE_DESCRIBE_MS = 86_400_000
"""How often an object without changes is described: its fields may change all the same."""

ApplyAll = Callable[[Sequence[ToApply]], Mapping[str, ApplyReport | Exception]]
"""Applies events of entities, each up to a position; the report of each, or what it failed with."""
EachEntity = Callable[[Iterable[EntityState], Callable[[EntityState], None]], None]
"""Does a work for each entity; decides what becomes of those that fail."""


@dataclass(frozen=True)
class _Worked:
    """What was done for an entity; `healed_after`: the age in seconds of the oldest doubt that was read back."""

    report: ApplyReport
    read: ReadBackReport | None = None
    healed_after: float | None = None

    @property
    def has_read(self) -> bool:
        """Records were read back."""
        return self.healed_after is not None


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
        apply: ApplyAll,
        listener: ApplyListener,
        each_entity: EachEntity,
        *,
        every_entity: bool,
        visibility_seconds: float,
        describe_seconds: float,
        following: Following | None = None,
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
        self._following = following

    def run(self) -> None:
        """Do it, and go on with what is landed meanwhile as long as `following` says. Raises what a drain raises, and
        what `each_entity` makes of an entity that failed."""
        self._catch_up()
        while self._following and self._following.has_more(
            {of: position for of, (position, _) in self._drained.items()}
        ):
            self._catch_up()

    def _catch_up(self) -> None:
        """Apply what is landed.

        A row read back may be ahead of what was drained before, so the stream is drained once more after a reading.
        """
        for _ in range(ROUNDS):
            self._drain()
            failed = self._follow_describes(self._entities, max(self._describe_ms, IDLE_DESCRIBE_MS))
            states = entity_states(self._warehouse, self._entities, self._clock_ms(), self._org.privacy)
            worked_on = [state for state in states if state.has_work or self._every_entity or state.entity in failed]
            worked = self._worked(worked_on, failed)
            self._each_entity(worked_on, partial(self._tell, worked))
            if not any(isinstance(each, _Worked) and each.has_read for each in worked.values()):
                break
        self._note_cuts()

    def _drain(self) -> None:
        for channel in dict.fromkeys(self._entities.values()):
            report = self._lander.land(channel)
            self._drained[channel] = (report.complete_position, report.complete_through_ms)
            self._listener.drained(report)

    def _worked(
        self, states: Sequence[EntityState], failed: Mapping[str, Exception]
    ) -> Mapping[str, _Worked | Exception]:
        """Bring all of them up to date; what became of each. `failed`: what some failed with already."""
        failed = {**failed, **self._follow_describes([state.entity for state in states], self._describe_ms)}
        found: dict[str, _Worked | Exception] = dict(failed)
        for entity, report in self._applied([state for state in states if state.entity not in failed]).items():
            found[entity] = report if isinstance(report, Exception) else outcome_of(self._read_back, report)
        again = [state for state in states if isinstance(of := found[state.entity], _Worked) and of.has_read]
        for entity, report in self._applied(again).items():
            before = found[entity]
            assert isinstance(before, _Worked), entity
            found[entity] = report if isinstance(report, Exception) else replace(before, report=report)
        return found

    def _applied(self, states: Sequence[EntityState]) -> Mapping[str, ApplyReport | Exception]:
        if not states:
            return {}
        wanted = [ToApply(state.entity, state.channel, self._drained[state.channel][0]) for state in states]
        found = outcome_of(self._apply, wanted)
        # What keeps all of them from being applied: a Spark that does not start, for one.
        return dict.fromkeys([each.entity for each in wanted], found) if isinstance(found, Exception) else found

    def _read_back(self, report: ApplyReport) -> _Worked:
        if not report.open_doubts:
            return _Worked(report)
        read = read_back_doubts(
            self._warehouse,
            self._org,
            report.entity,
            report.channel,
            self._watermarks,
            lag_ms=self._lag_ms,
            clock_ms=self._clock_ms,
            sleep=self._sleep,
        )
        if read is None or not (read.found or read.gone):
            return _Worked(report, read)
        return _Worked(report, read, (self._clock_ms() - (read.oldest_opened_at or 0)) / 1000)

    def _tell(self, worked: Mapping[str, _Worked | Exception], state: EntityState) -> None:
        found = worked[state.entity]
        if isinstance(found, Exception):
            raise found
        self._listener.brought_up_to_date(found.report, found.read, found.healed_after)

    def _follow_describes(self, entities: Iterable[str], every_ms: int) -> dict[str, Exception]:
        """Describe those for which it is time; what some of them failed with."""
        schemas, now = Schemas(self._warehouse), self._clock_ms()
        failed: dict[str, Exception] = {}
        for entity in entities:
            if is_to_be_described(schemas, entity, now, every_ms):
                found = outcome_of(follow_describe, self._warehouse, self._org, entity, now, every_ms)
                if isinstance(found, Exception):
                    failed[entity] = found
        return failed

    def _note_cuts(self) -> None:
        for channel, (position, through_ms) in self._drained.items():
            noted = note_cut(self._warehouse, self._known, channel, position, through_ms, self._clock_ms())
            if noted.cut is not None:
                self._listener.cut(noted.cut)
