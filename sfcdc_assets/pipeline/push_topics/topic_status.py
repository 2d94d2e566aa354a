"""Where the tables of PushTopics stand, from the tables alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sfcdc_assets.channel_kinds import folder_of
from sfcdc_assets.lake.audits import last_audits
from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.push_topics.fold import has_state
from sfcdc_assets.pipeline.status_report import TopicStatus


def topic_statuses(warehouse: Warehouse, landed: Mapping[str, EventTable]) -> Iterator[TopicStatus]:
    """One for each of the landed channels that is a topic's. Raises `TableDamaged`."""
    checked = last_audits(warehouse)
    for channel, events in landed.items():
        if has_state(channel):
            state = PushTopicState.open(warehouse, folder_of(channel))
            counts = state.counts() if state else {}
            at = checked.get(channel)
            yield TopicStatus(
                folder_of(channel),
                channel,
                landed=events.given_out(channel),
                applied=state.applied(channel) if state else None,
                last_check=at.isoformat(timespec="seconds") if at else None,
                **counts,
            )
