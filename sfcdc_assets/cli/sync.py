"""`sfcdc sync`: what the sensors and runs do, once, in this process."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from sfcdc_assets.cli.syncing.first_start import agree_to_first_start
from sfcdc_assets.cli.syncing.sync_progress import SyncProgress
from sfcdc_assets.cli.syncing.sync_summary import summary_of
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.progress_display import ProgressDisplay
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.entities.refused_reads import ReadsRefused, refused_reads
from sfcdc_assets.lake.store.poll_notes import PollsFailed, failed_polls
from sfcdc_assets.lake.store.request_ledger import POLLS, read_ledger
from sfcdc_assets.lake.tables.lost_checkpoints import KnownLoss, known_losses
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_budget import PollsWait
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.orchestration.sensors.readings import begin_readings
from sfcdc_assets.org_connection.snapshot_budget import CopiesWait
from sfcdc_assets.org_reads.first_start import first_timeouts, is_first_start
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.early_start import EarlySpark

if TYPE_CHECKING:
    from sfcdc_assets.cli.local_dagster.channel_turn import Turn


@stops_at_once
def sync(
    *,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Go on until everything in the stream is in the tables.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until interrupted, as Dagster's sensors do.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the ticks and the summary as JSON on standard output.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a first start.")] = False,
) -> None:
    """Poll every channel and bring the tables up to date, through Dagster, in this process.

    For cron and tests: reads each channel as its sensor would and does the runs that follow (snapshots on the first
    day, then events), once, until all is applied, or with --watch until interrupted. With DAGSTER_HOME set the runs
    show in that instance's UI. Progress and a summary go to standard error. A first start says what it takes of the
    org's allowances, and asks on a terminal. Exit code 0 when done, 1 with the reason when not; 130 or 143 when stopped
    by Ctrl-C or SIGTERM. What was landed before is kept.
    """
    if watch and (until_caught_up or as_json):
        problem = "it goes on until interrupted, and cannot be combined with --until-caught-up or --json."
        raise typer.BadParameter(problem, param_hint="--watch")
    settings = load_settings()
    agree_to_first_start(settings, yes=yes, waits=watch)
    warehouse = Warehouse(settings.warehouse)
    settled = {loss.checkpoint for loss in _losses(warehouse, settings.channels) if loss.is_bridged}
    early, progress = EarlySpark(settings), SyncProgress()
    turns: list[Turn] = []
    ended_well = False
    try:
        with ProgressDisplay(progress) as display, _open_channels() as channels:
            timeouts = first_timeouts(warehouse, until_caught_up=until_caught_up)
            if settings.feeding_channels and is_first_start(warehouse):
                early.start()  # it will be wanted, and starts while the copies are taken
            readings = begin_readings(channels, settings, TICK if watch else timeouts, early)
            # Dagster takes as long to import as a stream to answer.
            loading = threading.Thread(target=_load_ahead, args=("sfcdc_assets.cli.local_dagster.drive",), daemon=True)
            loading.start()
            readings.wait()
            loading.join()
            from sfcdc_assets.cli.local_dagster.drive import sync_channels, watch_channels  # noqa: PLC0415
            from sfcdc_assets.cli.local_dagster.instance import dagster_instance  # noqa: PLC0415

            if watch:
                watch_channels(report=display.tell, channels=channels, readings=readings)
            else:
                with dagster_instance() as instance:
                    turns += sync_channels(
                        instance,
                        until_caught_up=until_caught_up,
                        report=display.tell,
                        channels=channels,
                        readings=readings,
                    )
            waiting = {} if watch else channels.copies_that_wait()
        ended_well = True
    finally:
        for loss in _losses(warehouse, settings.channels):
            if loss.checkpoint not in settled:
                say(str(loss), err=True)
        summary = summary_of(progress, warehouse, settings.entities)
        if ended_well or not summary.is_empty:
            say("\n".join(summary.lines()), err=True)
    if as_json:
        said = [{"channel": each.channel, "said": each.said, "jobs": list(each.jobs)} for each in turns]
        say(json.dumps({"ticks": said, "summary": summary.to_json()}))
    refused = refused_reads(warehouse, settings.entities)
    if refused:
        raise ReadsRefused(refused)
    postponed = read_ledger(warehouse).postponed.get(POLLS) if POLLED in settings.feeding_channels else None
    if waiting:
        raise CopiesWait(waiting)
    if postponed is not None:
        raise PollsWait(postponed.objects, postponed.why)
    if not watch and POLLED in settings.feeding_channels and (failed := failed_polls(warehouse, settings.entities)):
        raise PollsFailed(failed)


def _load_ahead(module: str) -> None:
    """Import a module; what prevents it is raised by the caller's own import, not here.

    A Ctrl-C that ends an import in the main thread leaves a half-made module to the thread that waits for it.
    """
    with suppress(Exception):
        import_module(module)


def _losses(warehouse: Warehouse, channels: Sequence[str]) -> list[KnownLoss]:
    return [loss for channel in channels for loss in known_losses(warehouse, channel)]


def _open_channels() -> OpenChannels:
    """Return those of one sync. Whoever watches it may have mended in the org what others were refused for."""
    return OpenChannels(forgotten_seconds=math.inf, tries_at_once=sys.stderr.isatty())
