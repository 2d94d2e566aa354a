"""The loop that drives channels in this process: what Dagster's daemon does, for cron, tests and the demo.

Channels are read side by side (`Readings`); what each reading came to is looked at, and the runs that are due are done,
one after another. `sync_channels` ends when its channels are done, `watch_channels` when it is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext

import dagster as dg

from sfcdc_assets.cli.local_dagster.channel_sync import ChannelSync
from sfcdc_assets.cli.local_dagster.channel_turn import ChannelWatch, Turn, look_and_run
from sfcdc_assets.cli.local_dagster.housekeeping import Housekeeping, keep_house
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK, PollTimeouts
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.orchestration.sensors.readings import Readings, begin_readings
from sfcdc_assets.org_reads.first_start import first_timeouts
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.early_start import EarlySpark


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
            first = first_timeouts(warehouse, until_caught_up=until_caught_up)
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
    failures.extend(keep_house(instance, settings, report))
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

    Raises what all channels fail with before any was read, where none of it passes by itself (`FOR_A_PERSON`): a wrong
    setting will not mend itself. Other failures, an org that is away when it begins too, hold up their own channel
    alone: they are reported once, and tried again after pauses that grow. Raises the last failure when `FAILED_RUNS`
    rounds with runs in a row had one that was no entity's own: a Spark that is gone comes back with a new process.
    """
    settings = load_settings()
    readings = readings or begin_readings(channels, settings, TICK)
    watched = {channel: ChannelWatch(channel, report) for channel in readings.names}
    with Housekeeping(settings, report) as housekeeping:

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
