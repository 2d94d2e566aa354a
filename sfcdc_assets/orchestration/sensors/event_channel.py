"""One sensor a channel that carries no change events: a tick lands what has come, types what could not be typed until
now, and folds it where it is a PushTopic. There is nothing for a run to do, as each event stands for itself."""

from __future__ import annotations

import dagster as dg

from sfcdc_assets.event_channels.tables.fold import fold_topic, has_state
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.run_lander import Reading
from sfcdc_assets.orchestration.assets.event_metadata import event_materialization
from sfcdc_assets.orchestration.assets.push_topic_state import state_materialization
from sfcdc_assets.orchestration.checks.events import evaluation_of
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.channel_kinds import folder_of, kind_of


def events_due(
    assets: OrgAssets, instance: dg.DagsterInstance, opened: OpenChannel, reading: Reading
) -> dg.SensorResult:
    """Return what is due after a reading: reports, and the fold of a PushTopic's notifications."""
    channel, report, last_look = opened.channel, reading.report, opened.last_look
    last_look.cut_owed = last_look.was_busy = False
    # Most ticks land nothing, and Dagster's list of partitions was looked at by the first one of this process. A name
    # that is mistyped leaves nothing behind.
    is_to_look = reading.failure is None and (report.count > 0 or last_look.complete_position < 0)
    if reading.failure is None:
        last_look.complete_position = report.complete_position
    warehouse, kind, folder = opened.warehouse, kind_of(channel), folder_of(channel)
    partitions = assets.folders(kind)
    is_new = is_to_look and folder not in instance.get_dynamic_partitions(partitions.name or "")
    said = f"{counted(report.count, 'event')} landed on {channel}, position {report.position}"
    if report.lost_checkpoint:
        said += f"; the checkpoint was lost: {report.lost_checkpoint}"
    elif not report.has_answered:
        said += " (the stream has not answered yet)"
    events: list[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation] = []
    if is_new or report.count or report.lost_checkpoint:
        events = [
            event_materialization(assets, warehouse, report),
            evaluation_of(assets, warehouse, opened.settings, kind),
        ]
    if isinstance(opened.reader, ChannelReader):
        opened.reader.type_waiting()
    if has_state(channel):
        # A fold is one small commit in this process, and needs neither Spark nor the org: a run would cost more than
        # its work. What a tick that died has landed, this one folds.
        folded = fold_topic(warehouse, channel)
        if folded.notifications:
            said += f", {counted(folded.records, 'record')} of {folder} folded"
            events.append(state_materialization(assets, warehouse, folded))
    return dg.SensorResult(
        skip_reason=f"{said}.",
        dynamic_partitions_requests=[partitions.build_add_request([folder])] if is_new else [],
        asset_events=events,
    )
