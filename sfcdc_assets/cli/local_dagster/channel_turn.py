"""One turn of a channel in this process: a tick of its sensor, and the runs that the tick asks for, as Dagster's daemon
has them done; and how a watched channel goes on after it: at once, after a pause, or not without a person."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.cli.local_dagster.local_runs import RunFailed, run_job
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.errors import StoreRefused, WarehouseNotWritable, WarehousePathUnusable
from sfcdc_assets.lake.tables.lost_checkpoints import entities_of_channel
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.orchestration.jobs.run_config import while_nobody_lands
from sfcdc_assets.orchestration.sensors.channel import REST_SECONDS, report_directly
from sfcdc_assets.orchestration.sensors.due import due
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.orchestration.sensors.readings import ChannelRead
from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.errors import CertificateNotTrusted, InstanceNotTrusted
from sfcdc_assets.salesforce.managed_subscription import ManagedTopicOfOtherKind
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.spark.early_start import EarlySpark
from sfcdc_assets.streams.errors import ChannelNotFound, ChannelNotPermitted

log = logging.getLogger(__name__)


class UnexpectedFailure(SfcdcError):
    """A channel, or what is done beside the channels, failed with an error that is not one of the project's own."""

    def __init__(self, subject: str, error: Exception) -> None:
        self.subject = subject
        first = next(iter(str(error).strip().splitlines()), "")
        self.what = f"{type(error).__name__}: {first}" if first else type(error).__name__
        super().__init__(
            f"{subject}: an unexpected error stopped the work on it ({self.what.rstrip('.')}). What has landed is kept "
            "and the next sync goes on from there; if it comes again, report it with the traceback, which the log has "
            "at level DEBUG."
        )


@dataclass(frozen=True)
class Turn:
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
    is_open: bool = False
    """Whether more of the last transaction may come."""

    @property
    def all_failures(self) -> tuple[SfcdcError, ...]:
        """The failures, and the damage that none of them speaks of."""
        said = [str(failure) for failure in self.failures]
        return (*self.failures, *(each for each in self.damaged if not any(str(each) in line for line in said)))


def look_and_run(instance: dg.DagsterInstance, read: ChannelRead, early: EarlySpark | None = None) -> Turn:
    """Look at what is due, and do it, one run after another, whether or not the one before failed."""
    if isinstance(read.outcome, Exception):
        return Turn(read.channel, "", (), (failure_of(read.channel, read.outcome),), has_looked=False)
    opened, reading = read.outcome
    failures = [] if reading.failure is None else [failure_of(read.channel, reading.failure)]
    try:
        with opened.in_use(), _rest_that_is_waited_for(opened):
            result = due(ASSETS, instance, opened, reading, read.timeouts)
    except Exception as error:  # noqa: BLE001 - it stays with the channel
        first = (*failures, failure_of(read.channel, error))[:1]
        return Turn(read.channel, "", (), first, has_looked=False)
    if early is not None and result.run_requests:
        early.start()
        early.hand_over()
    last_look = opened.last_look
    owes_cut = last_look.cut_owed and not last_look.was_busy and not last_look.is_unproven
    jobs: list[str] = []
    failed: dict[str, str] = {}
    try:
        report_directly(instance, result)
        for request in result.run_requests or ():
            job = ASSETS.short(request.job_name or "")
            # The run works on what is landed; nobody waits for what is read meanwhile.
            of_run = run_job(instance, job, request.tags, while_nobody_lands(job, request.run_config))
            jobs.append(job)
            if of_run is not None:
                failed[job] = of_run.run_id
                failures.append(of_run)
    except Exception as error:  # noqa: BLE001 - Dagster itself failed: it stays with the channel
        failures.append(failure_of(read.channel, error))
    said = str(result.skip_reason.skip_message) if result.skip_reason else _done(jobs, failed)
    if reading.failure is not None and not jobs:
        said = ""  # why nothing is done is what the reading failed with
    if last_look.is_unproven:
        said += (
            " The first consistent cut is noted before the stream has answered, which may take minutes: whether "
            "something changed between two copies is not known, and the entities lag in it until the next cut."
        )
    damaged = tuple(last_look.damaged.values())
    return Turn(
        read.channel,
        said,
        tuple(jobs),
        tuple(failures),
        owes_cut,
        waits_for=last_look.waits_for,
        damaged=damaged,
        is_open=reading.report.position > reading.report.complete_position,
    )


def _rest_that_is_waited_for(opened: OpenChannel) -> AbstractContextManager[None]:
    """Where entities are followed, what has landed waits for a silent org no longer than in a tick of the sensor; a
    first sync has nothing but the org's answers."""
    if entities_of_channel(opened.warehouse, opened.channel):
        return unanswered_at_most(UnansweredTime(REST_SECONDS))
    return nullcontext()


def failure_of(subject: str, error: Exception) -> SfcdcError:
    """Return the error as a person reads it; of one that is not ours the traceback is in the log."""
    if isinstance(error, SfcdcError):
        return error
    log.debug("%s: not one of the project's own errors", subject, exc_info=error)
    return UnexpectedFailure(subject, error)


def _done(jobs: Sequence[str], failed: Mapping[str, str]) -> str:
    return ", ".join(f"{job} failed (run {failed[job][:8]})" if job in failed else f"{job} done" for job in jobs)


PAUSE_SECONDS = 2.0
"""Between two readings of a channel by `sync --watch`; twice as long each time what is due could not be found out."""
LONGEST_PAUSE_SECONDS = 64.0
FAILED_RUNS = 10
"""After so many rounds with failed runs, one after another, `sync --watch` ends."""
FOR_A_PERSON = (
    *OF_THE_LOGIN,
    SettingsError,
    InstanceNotTrusted,
    CertificateNotTrusted,
    WarehouseNotWritable,
    WarehousePathUnusable,
    StoreRefused,
    ManagedTopicOfOtherKind,
    ChannelNotFound,
    ChannelNotPermitted,
)
"""What no waiting mends: settings, credentials, and channels that the org has not, or not for this user."""


class ChannelWatch:
    """What has become of one channel that is watched."""

    def __init__(self, channel: str, report: Callable[[str], None]) -> None:
        self.failures: tuple[SfcdcError, ...] = ()
        self._channel = channel
        self._report = report
        self._was_read = self._is_for_a_person = False
        self._last_said: tuple[object, ...] = ()
        self._failed_rounds = self._failed_looks = 0

    @property
    def may_go_on(self) -> bool:
        """Whether there is hope without a person, or a new process. Who has read the channel once waits for whatever it
        fails with later: the settings were right."""
        return (self._was_read or not self._is_for_a_person) and self._failed_rounds < FAILED_RUNS

    def after(self, turn: Turn) -> float:
        """Report the turn, and return the pause in seconds before the channel is read again."""
        self._is_for_a_person = any(isinstance(failure, FOR_A_PERSON) for failure in turn.failures)
        self.failures = turn.all_failures
        of_runs = [failure for failure in turn.failures if isinstance(failure, RunFailed)]
        if turn.jobs or self.failures:
            self._say(turn)
        if turn.jobs:
            has_lost_all = any(not failure.is_of_entities for failure in of_runs)
            self._failed_rounds = self._failed_rounds + 1 if has_lost_all else 0
        self._was_read |= len(of_runs) == len(turn.failures)
        # A stream that fails has a pause of its own, in which what has landed is looked at as ever.
        self._failed_looks = 0 if turn.has_looked else self._failed_looks + 1
        return doubled(PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, self._failed_looks + 1)

    def _say(self, turn: Turn) -> None:
        """Once: a failure whose next try has only come nearer is the same one."""
        said = [turn.said] if turn.jobs else []
        this = (*said, *((type(each), each.__dict__ or str(each)) for each in self.failures))
        if this != self._last_said:
            self._report(f"{self._channel}: {'; '.join([*said, *map(str, self.failures)])}")
        self._last_said = this
