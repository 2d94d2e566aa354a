"""Sensor ticks and the runs they ask for, in this process: what Dagster's daemon does, for cron, tests and the demo."""

from __future__ import annotations

import math
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dagster as dg
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from sfcdc_assets import clock
from sfcdc_assets.channel_kinds import carries_changes
from sfcdc_assets.cli.first_reading import check_ready
from sfcdc_assets.cli.lost_runs import cancel_run
from sfcdc_assets.cli.stopping import before_stopping
from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.definitions import defs
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.jobs import DROP_PAYLOADS, SNAPSHOT
from sfcdc_assets.jobs.request import while_nobody_lands
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.patience import POLL, TICK, Patience, until_settled
from sfcdc_assets.pipeline.landing.payload_retention import droppable
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.sensors.channel import REFUSALS, tick_of
from sfcdc_assets.sensors.open_channels import OpenChannel, OpenChannels
from sfcdc_assets.spark.early import EarlySpark

ROUNDS = 1000
"""The most ticks that one `sync --until-caught-up` makes on a channel."""


PAUSE_SECONDS = 2.0
"""Between two rounds of `sync --watch`."""
FAILED_RUNS = 10
"""After so many rounds with failed runs, one after another, `sync --watch` ends."""


class RunFailed(SfcdcError):
    """A run ended with an error."""

    def __init__(self, job: str, run_id: str, reason: str) -> None:
        self.job = job
        self.run_id = run_id
        super().__init__(f"Run {run_id[:8]} of job {job} failed. {reason}")


@dataclass(frozen=True)
class TickOutcome:
    """What one tick of a channel came to: what the sensor said, the jobs of the runs that were made for it, which of
    these runs failed, and whether a consistent cut is to be noted once the stream is known to have nothing older."""

    channel: str
    said: str
    jobs: tuple[str, ...]
    failures: tuple[RunFailed, ...] = ()
    owes_cut: bool = False


@contextmanager
def dagster_instance() -> Iterator[dg.DagsterInstance]:
    """The instance of DAGSTER_HOME, so that runs are seen in its UI; without one, an instance for this process."""
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
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
) -> list[TickOutcome]:
    """Tick every configured channel, once or until nothing is left to do, and do the runs that the ticks ask for.

    Caught up means: everything is applied that was in the stream when it was last read, its last transaction included,
    for which the settling time is waited. On a stream that never rests, that is a moment, not a state. Without
    `until_caught_up` the last transaction stays for the next time, unless something followed it. A run that failed is
    tried again by the next tick, as under Dagster's daemon, and holds up neither the other entities nor the other
    channels; the second failure in a row is final. Raises `RunFailed` at the end for what failed last on a channel, and
    at once what a tick raises. `channels`: the caller's, which stay open. `early`: started as soon as there is
    something for Spark to do.
    """
    settings = load_settings()
    check_ready(settings)
    outcomes: list[TickOutcome] = []
    failed: list[RunFailed] = []
    with nullcontext(channels) if channels else OpenChannels(forgotten_seconds=math.inf) as opened:
        for channel in settings.channels:
            outcomes += _sync_channel(instance, opened, channel, settings, until_caught_up, tell, early)
            failed += outcomes[-1].failures
    failed += _drop_payloads(instance, settings, tell)
    if failed:
        raise failed[0]
    return outcomes


def watch_channels(
    *,
    tell: Callable[[str], None],
    channels: OpenChannels,
    early: EarlySpark | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Tick every configured channel as its sensor does, and do the runs, until `is_over` (a command: until it is
    stopped). Payloads past their retention are dropped once an hour.

    Raises what the first tick of a channel raises: a wrong setting will not mend itself. Later failures, of ticks and
    of runs, are reported once, and what they left undone is tried again, as under Dagster's daemon. Raises the last
    failure when `FAILED_RUNS` rounds with runs in a row had one: a Spark that is gone comes back with a new process.
    """
    settings = load_settings()
    check_ready(settings)
    last_said = dict.fromkeys(settings.channels, "")
    has_ticked: set[str] = set()
    failed_rounds = dict.fromkeys(settings.channels, 0)

    def said(channel: str, line: str) -> None:
        if line != last_said[channel]:
            tell(f"{channel}: {line}")
        last_said[channel] = line

    while not is_over():
        # Without DAGSTER_HOME an instance is in memory, and grows with each run: another one every hour.
        ends_at = clock.current().monotonic() + 3600
        with dagster_instance() as instance:
            for failure in _drop_payloads(instance, settings, tell):
                tell(str(failure))
            while not is_over() and clock.current().monotonic() < ends_at:
                for channel in settings.channels:
                    try:
                        opened = _opened(channels, channel, settings)
                        outcome = tick_and_run(instance, channel, opened, TICK, early)
                    except SfcdcError as error:
                        if channel not in has_ticked:
                            raise
                        if isinstance(error, REFUSALS):
                            channels.drop(channel)
                        said(channel, str(error))
                        continue
                    has_ticked.add(channel)
                    if outcome.jobs:
                        said(channel, "; ".join([outcome.said, *map(str, outcome.failures)]))
                        failed_rounds[channel] = failed_rounds[channel] + 1 if outcome.failures else 0
                    if failed_rounds[channel] == FAILED_RUNS:
                        raise outcome.failures[-1]
                clock.sleep(PAUSE_SECONDS)


def _drop_payloads(instance: dg.DagsterInstance, settings: Settings, tell: Callable[[str], None]) -> list[RunFailed]:
    """If there are any past their retention; the run, if it failed."""
    days = settings.payload_retention_days
    if days is None or not droppable(Warehouse(settings.warehouse), days, clock.now_ms()):
        return []
    run = _run(instance, _job(DROP_PAYLOADS.name), {})
    tell("payloads past their retention are dropped")
    return [] if run.success else [RunFailed(DROP_PAYLOADS.name, run.run_id, _reason(run))]


def _sync_channel(
    instance: dg.DagsterInstance,
    channels: OpenChannels,
    channel: str,
    settings: Settings,
    until_caught_up: bool,
    tell: Callable[[str], None],
    early: EarlySpark | None,
) -> list[TickOutcome]:
    outcomes: list[TickOutcome] = []
    if not carries_changes(channel):
        opened = _opened(channels, channel, settings)
        outcomes.append(tick_and_run(instance, channel, opened, POLL))  # no transaction has to end, no run follows
        tell(f"{channel}: {outcomes[-1].said}")
        return outcomes
    patience = until_settled(settings.settle_seconds) if until_caught_up else POLL
    only_events, failed_before = 0, False
    for _ in range(ROUNDS):
        opened = _opened(channels, channel, settings)
        outcome = tick_and_run(instance, channel, opened, patience, early)
        outcomes.append(outcome)
        tell(f"{channel}: {outcome.said}")
        only_events = only_events + 1 if outcome.jobs and SNAPSHOT.name not in outcome.jobs else 0
        if not until_caught_up or only_events == 2 or (outcome.failures and failed_before):
            break
        if not outcome.jobs and (not outcome.owes_cut or patience.through_ms):
            break
        failed_before = bool(outcome.failures)
        # Rows that were just read back may be ahead of the stream; when all that is older is landed, they are not.
        through_ms = 0 if outcome.jobs else clock.now_ms()
        patience = replace(patience, through_ms=through_ms)
    checkpoint = RawEvents.open(Warehouse(settings.warehouse)).stored_checkpoint(channel)
    if not until_caught_up and checkpoint.position > checkpoint.complete_position:
        tell(
            f"{channel}: the last transaction, from position {checkpoint.complete_position + 1} on, may not be "
            "complete yet and is left for the next time; --until-caught-up waits for it."
        )
    return outcomes


def _opened(channels: OpenChannels, channel: str, settings: Settings) -> OpenChannel:
    warehouse = Warehouse(settings.warehouse)
    return channels.of(channel, warehouse, settings, partial(OrgResource().connect, warehouse))


def tick_and_run(
    instance: dg.DagsterInstance,
    channel: str,
    opened: OpenChannel,
    patience: Patience,
    early: EarlySpark | None = None,
) -> TickOutcome:
    """One sensor tick and its runs, one after another, whether or not the one before failed. Raises what the tick
    raises."""
    if early is not None:
        opened.reader.on_events = early.start
    result = tick_of(channel)(instance, channel, opened, patience)
    if early is not None and result.run_requests:
        early.start()
        early.hand_over()
    owes_cut = opened.looked.cut_owed and not opened.looked.was_busy
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    for added in result.dynamic_partitions_requests or ():
        instance.add_dynamic_partitions(added.partitions_def_name, list(added.partition_keys))
    failures = []
    jobs = []
    for request in result.run_requests or ():
        job = _job(request.job_name or "")
        # Nobody lands while the run is at work.
        run = _run(instance, job, request.tags, while_nobody_lands(job.name, request.run_config))
        jobs.append(job.name)
        if not run.success:
            failures.append(RunFailed(job.name, run.run_id, _reason(run)))
    said = result.skip_reason.skip_message if result.skip_reason else _done(jobs, failures)
    return TickOutcome(channel, str(said), tuple(jobs), tuple(failures), owes_cut)


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


def _done(jobs: list[str], failures: list[RunFailed]) -> str:
    failed = {failure.job: failure.run_id for failure in failures}
    return ", ".join(f"{job} failed (run {failed[job][:8]})" if job in failed else f"{job} done" for job in jobs)


def _reason(run: ExecuteInProcessResult) -> str:
    """What failed: the entities whose own steps did, or else the first step."""
    failed = [event.step_failure_data for event in run.all_events if event.is_step_failure]
    of_entities = [data.user_failure_data for data in failed if data.user_failure_data is not None]
    descriptions = [str(data.description).removesuffix(".") for data in of_entities if data.description]
    if descriptions:
        return f"Failed: {'; '.join(descriptions)}. All other entities of this run are done."
    for data in failed:
        if data.error is not None:
            inner = data.error.cause or data.error
            return inner.message.strip()
    return "Its log has no step failure; look at it in the Dagster UI."
