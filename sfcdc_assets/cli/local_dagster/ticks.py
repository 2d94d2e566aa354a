"""Sensor ticks and the runs they ask for, in this process: what Dagster's daemon does, for cron, tests and the demo."""

from __future__ import annotations

import logging
import math
import os
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from sfcdc_assets.cli.local_dagster.lost_runs import cancel_run
from sfcdc_assets.cli.terminal.stopping import before_stopping
from sfcdc_assets.definitions import defs
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.payload_retention import droppable
from sfcdc_assets.landing.poll_timeouts import NOW, TICK, Patience, until_settled
from sfcdc_assets.orchestration.jobs import DROP_PAYLOADS, PACK, SNAPSHOT
from sfcdc_assets.orchestration.jobs.packing import LOOK_SECONDS, why_not_packed
from sfcdc_assets.orchestration.jobs.request import while_nobody_lands
from sfcdc_assets.orchestration.sensors.channel import look
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannel, OpenChannels
from sfcdc_assets.orchestration.sensors.readings import ChannelRead, Readings, begin_readings, check_ready
from sfcdc_assets.org_reads.first_start import first_patience
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.channel_kinds import carries_changes
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.spark.early import EarlySpark

log = logging.getLogger(__name__)

ROUNDS = 1000
"""The most ticks that one `sync --until-caught-up` makes on a channel."""


WAIT_SECONDS, WAITS = 2.0, 300
"""`sync --until-caught-up` looks this often, and so many times, whether another process's run has done what is due."""
PAUSE_SECONDS = 2.0
"""Between two readings of a channel by `sync --watch`; twice as long each time what is due could not be found out."""
LONGEST_PAUSE_SECONDS = 64.0
FAILED_RUNS = 10
"""After so many rounds with failed runs, one after another, `sync --watch` ends."""


class RunFailed(SfcdcError):
    """A run ended with an error. `is_of_entities`: of some entities' own, and all others of the run are done."""

    def __init__(self, job: str, run_id: str, reason: str, *, is_of_entities: bool = False) -> None:
        self.job = job
        self.run_id = run_id
        self.is_of_entities = is_of_entities
        super().__init__(f"Run {run_id[:8]} of job {job} failed. {reason}")


class AnotherRunAtWork(SfcdcError):
    """What is due is left to a run of another process, which lives and does not come to an end."""

    def __init__(self, channel: str, run_id: str) -> None:
        self.channel, self.run_id = channel, run_id
        super().__init__(
            f"{channel}: run {run_id} of another process is at work on it since {WAITS * WAIT_SECONDS / 60:.0f} min, "
            "and what is due is not done. Look at the run in Dagster, and terminate it if it hangs; the next sync goes "
            "on from there."
        )


class UnexpectedFailure(SfcdcError):
    """A channel failed with an error that is not one of the project's own."""

    def __init__(self, channel: str, error: Exception) -> None:
        self.channel = channel
        self.error = error
        first = next(iter(str(error).strip().splitlines()), "")
        what = f"{type(error).__name__}: {first}" if first else type(error).__name__
        super().__init__(
            f"{channel}: an unexpected error stopped its reading ({what.rstrip('.')}). What has landed is kept and the "
            "next sync goes on from there; if it comes again, report it with the traceback, which the log has at level "
            "DEBUG."
        )


class SeveralFailures(SfcdcError):
    """More than one thing failed; each has its own line. What did not fail is done."""

    def __init__(self, failures: Sequence[SfcdcError]) -> None:
        self.failures = tuple(failures)
        super().__init__(
            "\n".join(
                [f"{len(failures)} failures; all else is done.", *(" ".join(str(each).split()) for each in failures)]
            )
        )


def raise_all(failures: Sequence[SfcdcError]) -> None:
    """Raise what failed, if anything did: the error itself, or `SeveralFailures`. What is said once is enough."""
    each = list({str(failure): failure for failure in failures}.values())
    if len(each) > 1:
        raise SeveralFailures(each)
    if each:
        raise each[0]


@dataclass(frozen=True)
class TickOutcome:
    """What one tick of a channel came to: what the sensor said, the jobs of the runs that were made for it, what failed
    of it (the reading, the look, or runs), and whether a consistent cut is to be noted once the stream is known to have
    nothing older."""

    channel: str
    said: str
    jobs: tuple[str, ...]
    failures: tuple[SfcdcError, ...] = ()
    owes_cut: bool = False
    has_looked: bool = True
    """Whether it was found out what is due."""
    waits_for: str | None = None
    """The run of another process that has what is due."""
    damaged: tuple[SfcdcError, ...] = ()
    """Why tables of some entities cannot be read, whatever else was done."""

    @property
    def all_failures(self) -> tuple[SfcdcError, ...]:
        """The failures, and the damage that none of them speaks of."""
        said = [str(failure) for failure in self.failures]
        return (*self.failures, *(each for each in self.damaged if not any(str(each) in line for line in said)))


@contextmanager
def dagster_instance() -> Iterator[dg.DagsterInstance]:
    """The instance of DAGSTER_HOME, so that runs are seen in its UI; without one, an instance for this process. Whether
    Dagster collects usage statistics is a matter between its own commands and the user: here it neither does, nor
    explains itself in the middle of a sync."""
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as its_own:
            ref = its_own.get_ref()
        settings = {**ref.settings, "telemetry": {"enabled": False}}
        with dg.DagsterInstance.from_ref(ref._replace(settings=settings)) as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance


def sync_channels(
    instance: dg.DagsterInstance,
    *,
    until_caught_up: bool,
    tell: Callable[[str], None],
    channels: OpenChannels | None = None,
    early: EarlySpark | None = None,
    readings: Readings | None = None,
    only: Collection[str] | None = None,
) -> list[TickOutcome]:
    """Read every configured channel, once or until nothing is left to do, and do the runs that are due.

    Channels are read side by side; the runs are done one after another. Caught up means: everything is applied that was
    in the stream when it was last read, its last transaction included, for which the settling time is waited. On a
    stream that never rests, that is a moment, not a state. Without `until_caught_up` the last transaction stays for the
    next time, unless something followed it. A run that failed is tried again by the next tick, as under Dagster's
    daemon; the second failure in a row is final.

    Whatever fails holds up neither the other entities nor the other channels, and of a channel whose stream fails what
    has landed is worked on. What failed last on each channel is raised at the end: the error, or `SeveralFailures`.
    `channels`: the caller's, which stay open. `readings`: the first ones, begun by `begin_readings`. `only`: these of
    the configured channels. `early`: started as soon as there is something for Spark to do.
    """
    settings = load_settings()
    check_ready(settings)
    with nullcontext(channels) if channels else OpenChannels(forgotten_seconds=math.inf) as opened:
        if readings is None:
            warehouse = Warehouse(settings.warehouse)
            first = first_patience(warehouse, settings.settle_seconds, until_caught_up=until_caught_up)
            readings = begin_readings(opened, settings, first, early, only)
        syncs = {channel: _Sync(channel, settings, until_caught_up) for channel in readings.names}
        while readings.under_way:
            read = readings.take()
            sync = syncs[read.channel]
            outcome = _look_and_run(instance, read, early)
            patience = sync.after(outcome, read.patience)
            pause = WAIT_SECONDS if outcome.waits_for is not None else 0.0
            for line in sync.lines(outcome, is_last=patience is None):
                tell(f"{read.channel}: {line}")
            if patience is not None:
                readings.begin(read.channel, patience, pause)
    failures = [failure for sync in syncs.values() for failure in sync.failures]
    failures += _drop_payloads(instance, settings, tell)
    _pack(instance, settings, tell)
    raise_all(failures)
    return [outcome for sync in syncs.values() for outcome in sync.outcomes]


class _Sync:
    """What has become of one channel in a sync, and whether it is read again."""

    def __init__(self, channel: str, settings: Settings, until_caught_up: bool) -> None:
        self.channel = channel
        self.outcomes: list[TickOutcome] = []
        self._settings = settings
        self._until_caught_up = until_caught_up and carries_changes(channel)
        self._only_events = self._waits = 0
        self._said = ""

    @property
    def failures(self) -> tuple[SfcdcError, ...]:
        """What the last reading, look and runs failed with."""
        return self.outcomes[-1].all_failures

    def after(self, outcome: TickOutcome, patience: Patience) -> Patience | None:
        """How to read the channel again; None when that is enough."""
        failed_before = bool(self.outcomes and self.outcomes[-1].failures)
        self.outcomes.append(outcome)
        self._only_events = self._only_events + 1 if outcome.jobs and SNAPSHOT.name not in outcome.jobs else 0
        if not self._until_caught_up:
            # What was copied becomes tables with the next look.
            return patience if SNAPSHOT.name in outcome.jobs and len(self.outcomes) == 1 else None
        if self._only_events == 2 or len(self.outcomes) == ROUNDS:
            return None
        if outcome.failures and (failed_before or not outcome.jobs):
            return None
        settled = until_settled(self._settings.settle_seconds, NOW)
        if outcome.waits_for is not None and not outcome.jobs:
            self._waits += 1
            if self._waits < WAITS:
                return settled
            left = AnotherRunAtWork(self.channel, outcome.waits_for)
            self.outcomes[-1] = replace(outcome, failures=(*outcome.failures, left))
            return None
        self._waits = 0
        has_nothing_to_do = not outcome.jobs and patience.quiet >= settled.quiet
        if has_nothing_to_do and (not outcome.owes_cut or patience.through_ms):
            return None
        # Rows that were just read back may be ahead of the stream; when all that is older is landed, they are not.
        return replace(settled, through_ms=clock.now_ms() if has_nothing_to_do else 0)

    def lines(self, outcome: TickOutcome, *, is_last: bool) -> Iterator[str]:
        """What a person is told: nothing twice in a row, as by the reading that a cut waits for."""
        if outcome.said and outcome.said != self._said:
            yield outcome.said
        self._said = outcome.said
        if not is_last or self._until_caught_up or not carries_changes(self.channel) or outcome.failures:
            return
        checkpoint = RawEvents.open(Warehouse(self._settings.warehouse)).stored_checkpoint(self.channel)
        if checkpoint.position > checkpoint.complete_position:
            yield (
                f"the last transaction, from position {checkpoint.complete_position + 1} on, may not be complete yet "
                "and is left for the next time; --until-caught-up waits for it."
            )


def watch_channels(
    *,
    tell: Callable[[str], None],
    channels: OpenChannels,
    early: EarlySpark | None = None,
    readings: Readings | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Read every configured channel as its sensor does, and do the runs, until `is_over` (a command: until it is
    stopped). Payloads past their retention are dropped once an hour.

    Raises what the first readings fail with when all channels' do: a wrong setting will not mend itself. Other failures
    hold up their own channel alone: they are reported once, and tried again after pauses that grow. Raises the last
    failure when `FAILED_RUNS` rounds with runs in a row had one that was no entity's own: a Spark that is gone comes
    back with a new process.
    """
    settings = load_settings()
    check_ready(settings)
    readings = readings or begin_readings(channels, settings, TICK, early)
    watched = {channel: _Watched(channel, tell) for channel in readings.names}
    while readings.under_way:
        # Without DAGSTER_HOME an instance is in memory, and grows with each run: another one every hour.
        ends_at = clock.current().monotonic() + 3600
        with dagster_instance() as instance:
            for failure in _drop_payloads(instance, settings, tell):
                tell(str(failure))
            look_at = clock.current().monotonic()
            while readings.under_way and clock.current().monotonic() < ends_at:
                if is_over():
                    return
                if clock.current().monotonic() >= look_at:
                    look_at = clock.current().monotonic() + LOOK_SECONDS
                    _pack(instance, settings, tell)
                read = readings.take()
                pause = watched[read.channel].after(_look_and_run(instance, read, early))
                if not any(each.may_go_on for each in watched.values()):
                    raise_all([failure for each in watched.values() for failure in each.failures])
                readings.begin(read.channel, TICK, pause)


class _Watched:
    """What has become of one channel that is watched."""

    def __init__(self, channel: str, tell: Callable[[str], None]) -> None:
        self.failures: tuple[SfcdcError, ...] = ()
        self._channel = channel
        self._tell = tell
        self._was_read = self._was_tried = False
        self._last_said: tuple[object, ...] = ()
        self._failed_rounds = self._failed_looks = 0

    @property
    def may_go_on(self) -> bool:
        """Whether there is hope without a person, or a new process."""
        return (self._was_read or not self._was_tried) and self._failed_rounds < FAILED_RUNS

    def after(self, outcome: TickOutcome) -> float:
        """Report; the pause in seconds before the channel is read again."""
        self._was_tried = True
        self.failures = outcome.all_failures
        of_runs = [failure for failure in outcome.failures if isinstance(failure, RunFailed)]
        if outcome.jobs or self.failures:
            self._say(outcome)
        if outcome.jobs:
            has_lost_all = any(not failure.is_of_entities for failure in of_runs)
            self._failed_rounds = self._failed_rounds + 1 if has_lost_all else 0
        self._was_read |= len(of_runs) == len(outcome.failures)
        # A stream that fails has a pause of its own, in which what has landed is looked at as ever.
        self._failed_looks = 0 if outcome.has_looked else self._failed_looks + 1
        return float(min(PAUSE_SECONDS * 2**self._failed_looks, LONGEST_PAUSE_SECONDS))

    def _say(self, outcome: TickOutcome) -> None:
        """Once: a failure whose next try has only come nearer is the same one."""
        said = [outcome.said] if outcome.jobs else []
        this = (*said, *((type(each), each.__dict__ or str(each)) for each in self.failures))
        if this != self._last_said:
            self._tell(f"{self._channel}: {'; '.join([*said, *map(str, self.failures)])}")
        self._last_said = this


def _drop_payloads(instance: dg.DagsterInstance, settings: Settings, tell: Callable[[str], None]) -> list[RunFailed]:
    """If there are any past their retention; the run, if it failed."""
    days = settings.payload_retention_days
    if days is None or not droppable(Warehouse(settings.warehouse), days, clock.now_ms()):
        return []
    run = _run(instance, _job(DROP_PAYLOADS.name), {})
    tell("payloads past their retention are dropped")
    return [] if run.success else [_run_failed(run)]


def _pack(instance: dg.DagsterInstance, settings: Settings, tell: Callable[[str], None]) -> None:
    """If there are many small files. A run that failed is told of and stops nothing: its next one waits for longer."""
    if why_not_packed(instance, Warehouse(settings.warehouse), settings.payload_retention_days) is not None:
        return
    run = _run(instance, _job(PACK.name), {})
    tell("small files are packed" if run.success else str(_run_failed(run)))


def tick_and_run(
    instance: dg.DagsterInstance,
    channel: str,
    opened: OpenChannel,
    patience: Patience,
    early: EarlySpark | None = None,
) -> TickOutcome:
    """One reading of an open channel, and what is due after it."""
    with opened.in_use():
        read = ChannelRead(channel, patience, (opened, opened.read(patience)))
    return _look_and_run(instance, read, early)


def _look_and_run(instance: dg.DagsterInstance, read: ChannelRead, early: EarlySpark | None = None) -> TickOutcome:
    """Look at what is due, and do it, one run after another, whether or not the one before failed."""
    if isinstance(read.outcome, Exception):
        return TickOutcome(read.channel, "", (), (_failure_of(read.channel, read.outcome),), has_looked=False)
    opened, reading = read.outcome
    failures = [] if reading.failure is None else [_failure_of(read.channel, reading.failure)]
    try:
        with opened.in_use():
            result = look(instance, read.channel, opened, reading, read.patience)
    except Exception as error:  # noqa: BLE001 - it stays with the channel
        first = (*failures, _failure_of(read.channel, error))[:1]
        return TickOutcome(read.channel, "", (), first, has_looked=False)
    if early is not None and result.run_requests:
        early.start()
        early.hand_over()
    looked = opened.looked
    owes_cut = looked.cut_owed and not looked.was_busy and not looked.is_unproven
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    for added in result.dynamic_partitions_requests or ():
        instance.add_dynamic_partitions(added.partitions_def_name, list(added.partition_keys))
    jobs = []
    failed: dict[str, str] = {}
    for request in result.run_requests or ():
        job = _job(request.job_name or "")
        # The run works on what is landed; nobody waits for what is read meanwhile.
        run = _run(instance, job, request.tags, while_nobody_lands(job.name, request.run_config))
        jobs.append(job.name)
        if not run.success:
            failed[job.name] = run.run_id
            failures.append(_run_failed(run))
    said = str(result.skip_reason.skip_message) if result.skip_reason else _done(jobs, failed)
    if reading.failure is not None and not jobs:
        said = ""  # why nothing is done is what the reading failed with
    if looked.is_unproven:
        said += (
            " The first consistent cut is noted before the stream has answered, which may take minutes: whether "
            "something changed between two copies is not known, and the entities lag in it until the next cut."
        )
    damaged = tuple(looked.damaged.values())
    return TickOutcome(
        read.channel, said, tuple(jobs), tuple(failures), owes_cut, waits_for=looked.waits_for, damaged=damaged
    )


def _failure_of(channel: str, error: Exception) -> SfcdcError:
    """What a person is told of an error; of one that is not ours the traceback is in the log."""
    if isinstance(error, SfcdcError):
        return error
    log.debug("%s: not one of the project's own errors", channel, exc_info=error)
    return UnexpectedFailure(channel, error)


def _job(name: str) -> dg.JobDefinition:
    """One of ours. Dagster warns about a parameter of its own when it copies our sensors, which pass none (its
    `SensorDefinition.dagster_internal_init`, 1.13): nothing that a person could change."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parameter `owners` of initializer", dg.BetaWarning)
        return defs.resolve_job_def(name)


def _run(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    tags: Mapping[str, str],
    config: Mapping[str, Any] | None = None,
) -> ExecuteInProcessResult:
    run_id = str(uuid.uuid4())
    with before_stopping(lambda: cancel_run(instance, run_id)):
        return job.execute_in_process(
            instance=instance,
            run_id=run_id,
            tags=tags,
            raise_on_error=False,
            run_config={**(config or {}), "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )


def _done(jobs: Sequence[str], failed: Mapping[str, str]) -> str:
    return ", ".join(f"{job} failed (run {failed[job][:8]})" if job in failed else f"{job} done" for job in jobs)


def _run_failed(run: ExecuteInProcessResult) -> RunFailed:
    """What failed: the entities whose own steps did, or else the first step."""
    job, run_id = run.dagster_run.job_name, run.dagster_run.run_id
    failed = [event.step_failure_data for event in run.all_events if event.is_step_failure]
    of_entities = [data.user_failure_data for data in failed if data.user_failure_data is not None]
    descriptions = [str(data.description).removesuffix(".") for data in of_entities if data.description]
    if descriptions:
        reason = f"Failed: {'; '.join(descriptions)}. All other entities of this run are done."
        return RunFailed(job, run_id, reason, is_of_entities=True)
    for data in failed:
        if data.error is not None:
            inner = data.error.cause or data.error
            return RunFailed(job, run_id, inner.message.strip())
    return RunFailed(job, run_id, "Its log has no step failure; look at it in the Dagster UI.")
