"""One sensor a channel that carries no change events: a tick lands what has come, and folds it where it is a PushTopic.
There is nothing for a run to do, as each event stands for itself."""

from __future__ import annotations

import dagster as dg

from sfcdc_assets.assets.event_metadata import event_materialization
from sfcdc_assets.assets.push_topic_state import state_materialization
from sfcdc_assets.channel_kinds import folder_of, kind_of
from sfcdc_assets.checks.events import evaluation_of
from sfcdc_assets.partitions import EVENT_PARTITIONS
from sfcdc_assets.pipeline.landing.patience import Patience
from sfcdc_assets.pipeline.push_topics.fold import fold_topic, has_state
from sfcdc_assets.sensors.open_channels import OpenChannel


def event_tick(instance: dg.DagsterInstance, channel: str, opened: OpenChannel, patience: Patience) -> dg.SensorResult:
    """One tick. A refused token, an unknown channel or an outage fails the tick with its reason; it is never a skip."""
    with opened.in_use():
        report = opened.land(patience)
        looked = opened.looked
        looked.cut_owed = looked.was_busy = False
        # Most ticks land nothing, and Dagster's list of partitions was looked at by the first one of this process.
        is_to_look = report.count > 0 or looked.complete_position < 0
        looked.complete_position = report.complete_position
    warehouse, kind, folder = opened.warehouse, kind_of(channel), folder_of(channel)
    partitions = EVENT_PARTITIONS[kind]
    is_new = is_to_look and folder not in instance.get_dynamic_partitions(partitions.name or "")
    said = f"{report.count} events landed on {channel}, position {report.position}"
    if report.lost_checkpoint:
        said += f"; the checkpoint was lost: {report.lost_checkpoint}"
    elif not report.has_answered:
        said += " (the stream has not answered yet)"
    events: list[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation] = []
    if is_new or report.count or report.lost_checkpoint:
        events = [event_materialization(warehouse, report), evaluation_of(warehouse, opened.settings, kind)]
    if has_state(channel):
        # A fold is one small commit in this process, and needs neither Spark nor the org: a run would cost more than
        # its work. What a tick that died has landed, this one folds.
        folded = fold_topic(warehouse, channel)
        if folded.notifications:
            said += f", {folded.records} records of {folder} folded"
            events.append(state_materialization(warehouse, folded))
    return dg.SensorResult(
        skip_reason=f"{said}.",
        dynamic_partitions_requests=[partitions.build_add_request([folder])] if is_new else [],
        asset_events=events,
    )
