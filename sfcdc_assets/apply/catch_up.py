"""Catch up: drain the channels, bring each entity up to date, read back what is suspect, note the cut.

The order of a run's steps, without a scheduler. A run under Dagster has an op for each of these functions; `run` calls
them one after another, as the tests do that replay an org's history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sfcdc_assets.apply.apply_changes import Applier, ApplyReport, Committed, Prepared, Ready, ToApply, merged_report
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.apply.follow_run import Following
from sfcdc_assets.apply.record_cut import note_cut
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.consistent_cuts import Cut
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.run_lander import FailSafeLander, Lander
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.not_readable import note_not_readable, note_not_shown_whole
from sfcdc_assets.org_reads.read_back import ReadBackReport, read_back_suspects
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.schema_evolution.describe_cache import follow_describes

HEALING_SECONDS = 10.0
"""So long in all a round waits for an org that answers no request: its events are applied by then, and the next ones
wait."""
ROUNDS = 4
"""The most times a run drains: each round after the first follows a reading of suspect records."""

IDLE_DESCRIBE_MS = 86_400_000
"""How often an object without changes is described: its fields may change all the same."""

IDLE_DESCRIBES = 50
"""So many of these at most in one run: of hundreds of objects, copied on one day, all would be due in the same one."""


@dataclass(frozen=True)
class Applied:
    """What was done for an entity. `applied_at`: when its first batch of the round was committed (epoch ms);
    `healed_after`: the age in seconds of the oldest entry that was read back; `api_requests`: what describing the
    object and reading records back took."""

    report: ApplyReport
    applied_at: int
    read: ReadBackReport | None = None
    healed_after: float | None = None
    api_requests: int = 0

    @property
    def has_read(self) -> bool:
        """Records were read back."""
        return self.healed_after is not None


class ApplyListener:
    """Who hears of each step. The default does nothing."""

    def drained(self, report: LandingReport) -> None:
        """Note that a channel was drained."""

    def brought_up_to_date(self, applied: Applied) -> None:
        """Note that an entity was brought up to date."""

    def committed(self, report: ApplyReport, tables: EntityTables) -> None:
        """Note that an entity's batch was committed, in the thread that did it, beside the commits of others: what is
        read of the tables through their handles costs nobody time."""

    def cut(self, cut: Cut, before: Cut | None) -> None:
        """Note that the run reached a new cut, and which was the newest of its channel until then."""


class CatchUp:
    """One run over `entities` (entity -> channel; `known` are all that there are).

    Of them only those that have work are worked on, or all with `every_entity`.
    """

    def __init__(
        self,
        run: OrgRunContext,
        lander: Lander,
        entities: Mapping[str, str],
        known: Mapping[str, str],
        listener: ApplyListener,
        *,
        every_entity: bool,
        waits: bool = True,
    ) -> None:
        """With `waits` a round ends with reads of all suspect records that are due, for which some seconds have to pass
        since their last event. A run that follows its channels has later rounds for that, and nothing waits for it."""
        self._run = run
        self._waits = waits
        self._reads_left = False
        """Of the last round, some records are to be read when a read of them shows their last event."""
        self._warehouse = run.warehouse
        self._org = run.org
        self._entities = dict(entities)
        self._known = dict(known)
        self._applier = Applier(run, listener.committed)
        self._listener = listener
        self._every_entity = every_entity
        self._describe_ms = int(run.settings.describe_seconds * 1000)
        self._lander = FailSafeLander(run.warehouse, lander)
        self._watermarks = Watermarks(run, self._lander)
        self._drained: dict[str, tuple[int, int]] = {}
        """Channel -> complete position, and the time before which all that was committed is at or before it."""
        self._describing: Counter[str] = Counter()
        """Entity -> API requests that describing it took in this round."""
        self._unanswered = UnansweredTime(HEALING_SECONDS)
        """With an org that answers nothing, for all that is asked of it in a round."""
        self._not_described: Mapping[str, Exception] = {}
        """Entity -> why describing it failed in this round."""
        self._read: dict[str, tuple[EntityState, Applied]] = {}
        """Entity -> what was done for it before what was read back of it is applied."""
        self.damaged: Mapping[str, Exception] = {}
        """Entity -> why its tables cannot be read: nothing is done for it."""

    def run(self) -> None:
        """All of it, in order. Raises, when all else is done, what stopped an entity or a drain."""
        done, failed = self._round(self.land())
        self.finish(done, failed)
        for error in (*failed.values(), *self.damaged.values(), *self.not_drained.values()):
            raise error

    def land(self) -> list[EntityState]:
        """Drain the channels; the entities that are to be worked on. Of a channel that cannot be drained these are
        worked on as far as it was landed before; `not_drained` has the reason."""
        self._unanswered = UnansweredTime(HEALING_SECONDS)
        self._reads_left = False
        for channel in dict.fromkeys(self._entities.values()):
            report = self._lander.land(channel)
            self._drained[channel] = (report.complete_position, report.complete_through_ms)
            self._listener.drained(report)
        every_ms = max(self._describe_ms, IDLE_DESCRIBE_MS)
        self._not_described = self._follow_describes(self._entities, every_ms, IDLE_DESCRIBES)
        states = entity_states(self._warehouse, self._entities, clock.now_ms(), self._run.privacy)
        self.damaged = {state.entity: state.damaged for state in states if state.damaged is not None}
        return [
            state
            for state in states
            if state.damaged is None and (state.has_work or self._every_entity or state.entity in self._not_described)
        ]

    def prepare(self, states: Sequence[EntityState]) -> dict[str, Prepared | Exception]:
        """Do what entities share, and commit nothing; each entity's part, or what it failed with, in the order in which
        to commit them: none is to wait for a large one. Raises what stops all of them: a Spark that does not start, for
        one. As long as somebody holds an entity's part, whoever looks at its tables has to open each from nothing."""
        failed = {**self._not_described, **self._follow_describes([s.entity for s in states], self._describe_ms)}
        self._not_described = {}
        wanted = [self._wanted(state) for state in states if state.entity not in failed]
        return {
            **{state.entity: failed[state.entity] for state in states if state.entity in failed},
            **self._applier.prepare(wanted),
        }

    def commit(self, prepared: Mapping[str, Prepared | Exception]) -> dict[str, Ready]:
        """Commit what is written, but that of large entities; `bring_up_to_date` goes on from there."""
        return self._applier.commit_written(prepared)

    def bring_up_to_date(self, state: EntityState, ready: Ready) -> Applied:
        """Commit an entity's part if it is not, and read back its suspect records. What was read waits for
        `apply_reads`, and so does the listener. Raises what stops it."""
        calls = self._org.session.calls - self._describing.pop(state.entity, 0)
        applied = self._read_back(Applied(*self._committed(state, ready)))
        applied = replace(applied, api_requests=self._org.session.calls - calls)
        if applied.has_read:
            self._read[state.entity] = state, applied
        else:
            self._listener.brought_up_to_date(applied)
        return applied

    def apply_reads(self) -> Iterator[tuple[str, Applied | Exception]]:
        """Apply what was read back, of all entities in few jobs of Spark: each with both of its applications as one, or
        with what stopped it. Raises what `prepare` raises; what was read is work for the next run then."""
        read, self._read = self._read, {}
        wanted = [self._wanted(state) for state, _ in read.values()]
        ready = self.commit(self._applier.prepare(wanted))
        for entity in list(ready):
            state, first = read[entity]
            found = outcome_of(self._committed, state, ready.pop(entity))
            if isinstance(found, Exception):
                yield entity, found
                continue
            applied = replace(first, report=merged_report(first.report, found[0]))
            self._listener.brought_up_to_date(applied)
            yield entity, applied

    def outcomes(self, states: Sequence[EntityState]) -> Iterator[tuple[str, Applied | Exception]]:
        """Do all of it for all of them: each entity, when it is done, with what became of it. Those of which records
        were read back come last. Raises what `prepare` raises."""
        of = {state.entity: state for state in states}
        ready = self.commit(self.prepare(states))
        for entity in list(ready):
            found = outcome_of(self.bring_up_to_date, of[entity], ready.pop(entity))
            if entity not in self._read:
                yield entity, found
        yield from self.apply_reads()

    def finish(self, done: Iterable[Applied], failed: Collection[str] = ()) -> None:
        """Do what comes after the entities: more rounds as long as records are read back, then the cuts, in which those
        lag that failed.

        A row read back may be ahead of what was drained before, so the stream is drained once more after a reading.
        Raises what stops another entity in a later round, when the cuts are noted.
        """
        stopped: dict[str, Exception] = {}
        for _ in range(ROUNDS - 1):
            if not any(each.has_read for each in done):
                break
            given_up = {*failed, *stopped}
            done, errors = self._round([state for state in self.land() if state.entity not in given_up])
            stopped |= errors
        lacking = {*failed, *stopped}
        for channel, (position, through_ms) in self._drained.items():
            noted = note_cut(self._warehouse, self._known, channel, position, through_ms, lacking)
            if noted.cut is not None:
                self._listener.cut(noted.cut, noted.before)
        for error in stopped.values():
            raise error

    def follow(self, following: Following) -> Iterator[Mapping[str, Exception]]:
        """Go on with what is landed meanwhile, as long as `following` says; after each round the entities that failed,
        with the reason. A round in which one did is the last."""
        visible_seconds = self._run.settings.visibility_seconds
        while following.has_more(
            {of: position for of, (position, _) in self._drained.items()},
            at_most=visible_seconds if self._reads_left else None,
        ):
            found = dict(self.outcomes(self.land()))
            failed = {entity: each for entity, each in found.items() if isinstance(each, Exception)}
            self.finish([each for each in found.values() if isinstance(each, Applied)], failed)
            yield failed
            if failed:
                return

    @property
    def not_drained(self) -> Mapping[str, Exception]:
        """Channel -> why its stream could not be read. To be raised at the end: what was landed is done."""
        return self._lander.failures

    @property
    def landed_until_ms(self) -> Mapping[str, int]:
        """Channel -> the time (epoch ms) before which all that the org committed has landed and is complete."""
        return {channel: through_ms for channel, (_, through_ms) in self._drained.items()}

    def _round(self, states: Sequence[EntityState]) -> tuple[list[Applied], dict[str, Exception]]:
        """Return what was done, and what stopped an entity."""
        found = dict(self.outcomes(states))
        failed = {entity: each for entity, each in found.items() if isinstance(each, Exception)}
        return [each for each in found.values() if isinstance(each, Applied)], failed

    def _committed(self, state: EntityState, ready: Ready) -> tuple[ApplyReport, int]:
        """Commit an entity's part if it is not; the report, and when its first batch was committed (epoch ms)."""
        if not isinstance(ready, Committed):
            return self._applier.commit(self._wanted(state), ready), clock.now_ms()
        if not ready.report.has_more:
            return ready.report, ready.at_ms
        return merged_report(ready.report, self._applier.apply(self._wanted(state))), ready.at_ms

    def _wanted(self, state: EntityState) -> ToApply:
        return ToApply(state.entity, state.channel, self._drained[state.channel][0])

    def _read_back(self, applied: Applied) -> Applied:
        report = applied.report
        if not report.open_suspects:
            return applied
        with unanswered_at_most(self._unanswered):
            read = read_back_suspects(self._run, report.entity, report.channel, self._watermarks, waits=self._waits)
        if read is not None and read.too_early:
            self._reads_left = True
            read = read if read.asked else None
        if read is None or not (read.found or read.gone):
            return replace(applied, read=read)
        healed_after = (clock.now_ms() - (read.oldest_opened_at or 0)) / 1000
        return replace(applied, read=read, healed_after=healed_after)

    def _follow_describes(
        self, entities: Iterable[str], every_ms: int, most: int | None = None
    ) -> Mapping[str, Exception]:
        """Describe those for which it is time; what some of them failed with."""
        calls = self._org.session.calls
        with unanswered_at_most(self._unanswered):
            found = follow_describes(self._run, entities, every_ms, most)
            note_not_readable(self._warehouse, self._org, {of: self._known[of] for of in found.not_readable})
            shown = [of for of in found.due if of not in found.not_readable and of not in found.failed]
            note_not_shown_whole(self._warehouse, self._org, {of: self._known[of] for of in shown})
        for number, entity in enumerate(found.due):
            shared, rest = divmod(self._org.session.calls - calls, len(found.due))
            self._describing[entity] += shared + (number < rest)
        return found.failed
