"""One sensor a channel that carries no change events: a tick lands what has come. There is nothing for a run to do, as
each event stands for itself."""

from __future__ import annotations

import dagster as dg

from sfcdc_assets.assets.event_metadata import event_materialization
from sfcdc_assets.channel_kinds import folder_of, kind_of
from sfcdc_assets.checks.events import evaluation_of
from sfcdc_assets.partitions import EVENT_PARTITIONS
from sfcdc_assets.pipeline.landing.patience import Patience
from sfcdc_assets.sensors.open_channels import OpenChannel


def event_tick(instance: dg.DagsterInstance, channel: str, opened: OpenChannel, patience: Patience) -> dg.SensorResult:
    """One tick. A refused token, an unknown channel or an outage fails the tick with its reason; it is never a skip."""
    with opened.in_use():
        report = opened.land(patience)
        opened.looked.cut_owed = opened.looked.was_busy = False
    warehouse, kind, folder = opened.warehouse, kind_of(channel), folder_of(channel)
    partitions = EVENT_PARTITIONS[kind]
    is_new = folder not in instance.get_dynamic_partitions(partitions.name or "")
    said = f"{report.count} events landed on {channel}, position {report.position}"
    if report.lost_checkpoint:
        said += f"; the checkpoint was lost: {report.lost_checkpoint}"
    elif not report.has_answered:
        said += " (the stream has not answered yet)"
    events: list[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation] = []
    if is_new or report.count or report.lost_checkpoint:
        events = [event_materialization(warehouse, report), evaluation_of(warehouse, opened.settings, kind)]
    return dg.SensorResult(
        skip_reason=f"{said}.",
        dynamic_partitions_requests=[partitions.build_add_request([folder])] if is_new else [],
        asset_events=events,
    )
