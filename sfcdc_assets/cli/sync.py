"""`sfcdc sync`: what the sensors and runs do, once, in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sfcdc_assets.cli.first_reading import read_first
from sfcdc_assets.cli.first_start import agree_to_first_start
from sfcdc_assets.cli.progress_display import ProgressDisplay
from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.cli.sync_progress import SyncProgress
from sfcdc_assets.cli.sync_summary import summary_of
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.lost_checkpoint import KnownLoss, known_losses
from sfcdc_assets.pipeline.landing.patience import POLL, TICK, until_settled
from sfcdc_assets.pipeline.org_reads.refused_reads import ReadsRefused, refused_reads
from sfcdc_assets.sensors.open_channels import OpenChannels
from sfcdc_assets.spark.early import EarlySpark

if TYPE_CHECKING:
    from sfcdc_assets.cli.ticks import TickOutcome


@stops_at_once
def sync(
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

    For cron and tests: each channel's sensor is ticked and the runs it asks for are done here (snapshots on the first
    day, then events), once, until all is applied, or with --watch until interrupted, as a service. With DAGSTER_HOME
    set the runs show in that instance's UI. Progress and a summary go to standard
    error. A first start says what it takes of the org's allowances, and asks when it is on a terminal.
    Exit code 0 when done, 1 with the reason when not; 130 or 143 when stopped by Ctrl-C or SIGTERM. What was landed
    before is kept.
    """
    if watch and (until_caught_up or as_json):
        problem = "it goes on until interrupted, and cannot be combined with --until-caught-up or --json."
        raise typer.BadParameter(problem, param_hint="--watch")
    settings = load_settings()
    agree_to_first_start(settings, yes=yes)
    warehouse = Warehouse(settings.warehouse)
    settled = {loss.checkpoint for loss in _losses(warehouse, settings.channels) if loss.is_bridged}
    early, progress = EarlySpark(settings), SyncProgress()
    outcomes: list[TickOutcome] = []
    ended_well = False
    try:
        with ProgressDisplay(progress) as display, OpenChannels(forgotten_seconds=math.inf) as channels:
            patience = TICK if watch else until_settled(settings.settle_seconds) if until_caught_up else POLL
            read_first(channels, settings, patience, early)
            from sfcdc_assets.cli import ticks  # noqa: PLC0415 - loaded by now

            if watch:
                ticks.watch_channels(tell=display.tell, channels=channels, early=early)
            else:
                with ticks.dagster_instance() as instance:
                    outcomes += ticks.sync_channels(
                        instance, until_caught_up=until_caught_up, tell=display.tell, channels=channels, early=early
                    )
        ended_well = True
    finally:
        for loss in _losses(warehouse, settings.channels):
            if loss.checkpoint not in settled:
                typer.echo(str(loss), err=True)
        summary = summary_of(progress, warehouse)
        if ended_well or not summary.is_empty:
            typer.echo("\n".join(summary.lines()), err=True)
    if as_json:
        said = [{"channel": each.channel, "said": each.said, "jobs": list(each.jobs)} for each in outcomes]
        typer.echo(json.dumps({"ticks": said, "summary": summary.to_json()}))
    refused = refused_reads(warehouse, settings.entities or None)
    if refused:
        raise ReadsRefused(refused)


def _losses(warehouse: Warehouse, channels: Sequence[str]) -> list[KnownLoss]:
    return [loss for channel in channels for loss in known_losses(warehouse, channel)]
