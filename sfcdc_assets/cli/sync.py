"""`sfcdc sync`: what the sensors and runs do, once, in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated

import typer

from sfcdc_assets.cli.first_reading import read_first
from sfcdc_assets.cli.first_start import agree_to_first_start
from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.lost_checkpoint import KnownLoss, known_losses
from sfcdc_assets.pipeline.landing.patience import POLL, until_settled
from sfcdc_assets.pipeline.org_reads.refused_reads import ReadsRefused, refused_reads
from sfcdc_assets.sensors.open_channels import OpenChannels
from sfcdc_assets.spark.early import EarlySpark


@stops_at_once
def sync(
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Go on until everything in the stream is in the tables.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ticks as JSON on standard output.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a first start.")] = False,
) -> None:
    """Poll every channel and bring the tables up to date, through Dagster, in this process.

    For cron and tests: each channel's sensor is ticked and the runs it asks for are done here (snapshots on the first
    day, then events). With DAGSTER_HOME set the runs show in that instance's UI. Progress goes to standard error. A
    first start says what it takes of the org's allowances, and asks when it is on a terminal.
    Exit code 0 when done, 1 with the reason when not; 130 or 143 when stopped by Ctrl-C or SIGTERM. What was landed
    before is kept.
    """
    settings = load_settings()
    agree_to_first_start(settings, yes=yes)
    warehouse = Warehouse(settings.warehouse)
    settled = {loss.checkpoint for loss in _losses(warehouse, settings.channels) if loss.is_bridged}
    early = EarlySpark(settings)
    try:
        with OpenChannels(forgotten_seconds=math.inf) as channels:
            patience = until_settled(settings.settle_seconds) if until_caught_up else POLL
            read_first(channels, settings, patience, early)
            from sfcdc_assets.cli.ticks import dagster_instance, sync_channels  # noqa: PLC0415 - loaded by now

            with dagster_instance() as instance:
                outcomes = sync_channels(
                    instance,
                    until_caught_up=until_caught_up,
                    tell=lambda line: typer.echo(line, err=True),
                    channels=channels,
                    early=early,
                )
    finally:
        for loss in _losses(warehouse, settings.channels):
            if loss.checkpoint not in settled:
                typer.echo(str(loss), err=True)
    if as_json:
        ticks = [{"channel": each.channel, "said": each.said, "jobs": list(each.jobs)} for each in outcomes]
        typer.echo(json.dumps({"ticks": ticks}))
    refused = refused_reads(warehouse, settings.entities or None)
    if refused:
        raise ReadsRefused(refused)


def _losses(warehouse: Warehouse, channels: Sequence[str]) -> list[KnownLoss]:
    return [loss for channel in channels for loss in known_losses(warehouse, channel)]
