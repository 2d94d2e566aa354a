"""The loop that drives channels in this process: what Dagster's daemon does, for cron, tests and the demo.

Channels are read side by side (`Readings`); what each reading came to is looked at, and the runs that are due are done,
one after another. `sync_channels` ends when its channels are done, `watch_channels` when it is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial

import dagster as dg

from sfcdc_assets.cli.local_dagster.channel_sync import ChannelSync
from sfcdc_assets.cli.local_dagster.channel_turn import ChannelWatch, Turn, failure_of, look_and_run
from sfcdc_assets.cli.local_dagster.formula_reading import FormulaReading
from sfcdc_assets.cli.local_dagster.instance import dagster_instance
from sfcdc_assets.cli.local_dagster.local_runs import drop_payloads, pack, read_formulas, write_views
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK, PollTimeouts
from sfcdc_assets.orchestration.jobs.packing import LOOK_SECONDS
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.orchestration.sensors.readings import Readings, begin_readings
from sfcdc_assets.org_reads.first_start import first_timeouts
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.spark.early_start import EarlySpark

PAYLOADS, SMALL_FILES, VIEWS = "Payloads", "Small files", "The views in files"
"""What keeps the warehouse in order, as a failure names it."""

INSTANCE_SECONDS = 3_600.0
"""Without DAGSTER_HOME an instance is in memory, and grows with each run: a watch has another one so often."""


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


def drive(
    readings: Readings,
    instance: Callable[[], dg.DagsterInstance],
    after: Callable[[Turn, PollTimeouts], tuple[PollTimeouts, float] | None],
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Take one turn of a channel after another, until none is read any more or `is_over`.

    `instance`: the one for the next turn. `after`: how to read the turn's channel again, and after how many seconds;
    None when that is enough.
    """
    while readings.under_way and not is_over():
        read = readings.take()
        again = after(look_and_run(instance(), read, readings.early), read.timeouts)
        if again is not None:
            readings.begin(read.channel, *again)


def sync_channels(
    instance: dg.DagsterInstance,
    *,
    until_caught_up: bool,
    report: Callable[[str], None],
    channels: OpenChannels | None = None,
    early: EarlySpark | None = None,
    readings: Readings | None = None,
    only: Collection[str] | None = None,
) -> list[Turn]:
    """Read every configured channel, once or until nothing is left to do, and do the runs that are due.

    Caught up means: everything is applied that was in the stream when it was last read, its last transaction included,
    for which the settling time is waited. On a stream that never rests, that is a moment, not a state. Without
    `until_caught_up` the last transaction stays for the next time, unless something followed it. A run that failed is
    tried again by the next turn, as under Dagster's daemon; the second failure in a row is final.

    Whatever fails holds up neither the other entities nor the other channels, and of a channel whose stream fails what
    has landed is worked on. What failed last on each channel is reported when that is done with, if others are not, and
    raised at the end: the error, or `SeveralFailures`.
    `channels`: the caller's, which stay open. `early`: started as soon as there is something for Spark to do. `only`:
    these of the configured channels. `readings`: the first ones, where they have begun (with their `early` and `only`).
    """
    settings = load_settings()
    with nullcontext(channels) if channels else OpenChannels(forgotten_seconds=math.inf) as opened:
        if readings is None:
            opened.count_anew()
            warehouse = Warehouse(settings.warehouse)
            first = first_timeouts(warehouse, settings.settle_seconds, until_caught_up=until_caught_up)
            readings = begin_readings(opened, settings, first, early, only)
        syncs = {channel: ChannelSync(channel, settings, until_caught_up=until_caught_up) for channel in readings.names}

        def after(turn: Turn, timeouts: PollTimeouts) -> tuple[PollTimeouts, float] | None:
            sync = syncs[turn.channel]
            again = sync.after(turn, timeouts)
            for line in sync.lines(turn, is_last=again is None):
                report(f"{turn.channel}: {line}")
            if again is None and sync.failures and readings.under_way:  # the others may take minutes
                why = " ".join(" ".join(map(str, sync.failures)).split())
                report(f"{turn.channel} failed, the other channels go on. {why}")
            return again

        drive(readings, lambda: instance, after)
    failures = [failure for sync in syncs.values() for failure in sync.failures]
    beside: Mapping[str, Callable[[], object]] = {
        PAYLOADS: lambda: raise_all(drop_payloads(instance, settings, report)),
        SMALL_FILES: lambda: pack(instance, settings, report),
        "Formula fields": lambda: raise_all(read_formulas(instance, settings, report)),
        VIEWS: lambda: write_views(instance, settings, report),
    }
    for what, work in beside.items():
        outcome = outcome_of(work)
        if isinstance(outcome, Exception):
            failures.append(failure_of(what, outcome))
    raise_all(failures)
    return [turn for sync in syncs.values() for turn in sync.turns]


def watch_channels(
    *,
    report: Callable[[str], None],
    channels: OpenChannels,
    readings: Readings | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Read every configured channel as its sensor does, and do the runs, until `is_over` (a command: until it is
    stopped). Small files are packed and payloads past their retention dropped meanwhile.

    Raises what the first readings fail with when all channels' do: a wrong setting will not mend itself. Other failures
    hold up their own channel alone: they are reported once, and tried again after pauses that grow. Raises the last
    failure when `FAILED_RUNS` rounds with runs in a row had one that was no entity's own: a Spark that is gone comes
    back with a new process.
    """
    settings = load_settings()
    readings = readings or begin_readings(channels, settings, TICK)
    watched = {channel: ChannelWatch(channel, report) for channel in readings.names}
    with _Housekeeping(settings, report) as housekeeping:

        def after(turn: Turn, _: PollTimeouts) -> tuple[PollTimeouts, float]:
            pause = watched[turn.channel].after(turn)
            if not any(each.may_go_on for each in watched.values()):
                raise_all([failure for each in watched.values() for failure in each.failures])
            return TICK, pause

        def is_over_now() -> bool:
            if not is_over():
                housekeeping.look()
                return False
            return True

        drive(readings, housekeeping.instance, after, is_over=is_over_now)


class _Housekeeping:
    """What a watch does beside its channels, and the instance of Dagster that it does it with, a new one each hour."""

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._report = report
        self._formulas = FormulaReading(settings, report)
        self._held = ExitStack()
        self._instance: dg.DagsterInstance | None = None
        self._views_of: str | None = None
        self._said: dict[str, str] = {}
        """What each thing failed with last."""
        self._ends_at = self._look_at = 0.0

    def instance(self) -> dg.DagsterInstance:
        """Return the instance of this hour."""
        now = clock.current().monotonic()
        if self._instance is None or now >= self._ends_at:
            self._held.close()
            self._instance = self._held.enter_context(dagster_instance())
            self._ends_at, self._look_at = now + INSTANCE_SECONDS, now
            self._try(PAYLOADS, partial(self._drop_payloads, self._instance))
        return self._instance

    def look(self) -> None:
        """Do what is due."""
        instance, now = self.instance(), clock.current().monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._try(SMALL_FILES, partial(pack, instance, self._settings, self._report))
            self._try(VIEWS, partial(self._write_views, instance))
            self._formulas.look()

    def _drop_payloads(self, instance: dg.DagsterInstance) -> None:
        raise_all(drop_payloads(instance, self._settings, self._report))

    def _write_views(self, instance: dg.DagsterInstance) -> None:
        self._views_of = write_views(instance, self._settings, self._report, self._views_of)

    def _try(self, what: str, work: Callable[[], object]) -> None:
        """No channel depends on it. What fails again in the same way is reported once."""
        outcome = outcome_of(work)
        said = str(failure_of(what, outcome)) if isinstance(outcome, Exception) else ""
        if said and said != self._said.get(what):
            self._report(said)
        self._said[what] = said

    def __enter__(self) -> _Housekeeping:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
