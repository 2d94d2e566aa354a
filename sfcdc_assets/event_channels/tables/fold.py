"""Folding: the notifications that have landed of a PushTopic become what is known of each record."""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.event_channels.push_topics.state_rows import CARRIED, field_columns, known_of_events
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of, kind_of

AT_ONCE = 20_000
"""Notifications of one commit: what memory holds."""
_ABOUT = ("position", "replay_id", "created_date", "event_type", CARRIED)


@dataclass(frozen=True)
class Folded:
    """What was folded: notifications at positions after `from_position` up to `to_position`, and the records that they
    are about."""

    channel: str
    from_position: int = 0
    to_position: int = 0
    notifications: int = 0
    records: int = 0

    def plus(self, other: Folded) -> Folded:
        """Return both, one after the other; a record in both counts twice."""
        return Folded(
            self.channel,
            self.from_position,
            other.to_position,
            self.notifications + other.notifications,
            self.records + other.records,
        )


def has_state(channel: str) -> bool:
    """Return whether a channel's notifications are folded: those of a topic without a filter. What a filter lets
    through are the same notifications."""
    return kind_of(channel) is ChannelKind.PUSH_TOPIC and "?" not in channel


def fold_topic(warehouse: Warehouse, channel: str) -> Folded:
    """Fold all that has landed. Safe at any time, by several at once: what is folded already is not folded again."""
    done = part = _fold_some(warehouse, channel)
    while part.to_position - part.from_position == AT_ONCE:
        part = _fold_some(warehouse, channel)
        done = done.plus(part)
    return done


@retry_on_conflict
def _fold_some(warehouse: Warehouse, channel: str) -> Folded:
    events = EventTable.open(warehouse, channel)
    if events is None:
        return Folded(channel)
    fields = field_columns(events.table.schema)
    state = PushTopicState.open_or_create(warehouse, folder_of(channel), fields)
    after = state.applied(channel)
    # What waits to be typed, and what came after it, is folded when it is.
    typed = events.untyped_from(channel) - 1 if events.untyped_from(channel) else after + AT_ONCE
    up_to = min(events.complete_position(channel), typed, after + AT_ONCE)
    if up_to <= after:
        return Folded(channel, after, after)
    names = [field.name for field in fields]
    if not names:  # nothing but messages that could not be read
        state.commit({}, channel, up_to)
        return Folded(channel, after, up_to, up_to - after)
    rows = events.table.scan([*_ABOUT, *names], f"position > {after} and position <= {up_to}").to_pylist()
    notified = known_of_events(rows, names)
    known = state.known(list(notified))
    joined = {each: known[each].joined(new) if each in known else new for each, new in notified.items()}
    state.commit(joined, channel, up_to)
    return Folded(channel, after, up_to, len(rows), len(joined))
