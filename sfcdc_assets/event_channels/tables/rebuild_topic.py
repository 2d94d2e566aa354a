"""Rebuild of a PushTopic's state: it is folded again beside the present one from all notifications that have landed.

What the hourly comparisons read of the org is not stored, so a rebuilt state lacks it until the next comparison; the
command makes one at once.
"""

from __future__ import annotations

from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.lake.delta.shadow_tables import build_shadow_tables, finish, open_if_readable, put_in_place
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.reconciliation.rebuild import ATTEMPTS, RebuildReport
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.channel_kinds import folder_of


class NoNotifications(SfcdcError):
    """Nothing of the PushTopic has landed."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        super().__init__(f"{channel}: no notification has landed to rebuild it from. `sfcdc sync` lands what there is.")


def rebuild_topic(warehouse: Warehouse, channel: str) -> RebuildReport:
    """Fold all that has landed of a PushTopic into a new state, and put it in the place of the present one.

    Until that one commit nothing changes. Raises `NoNotifications`, `RebuildAtWork`, and `ConcurrentCommit`
    where other runs are always faster.
    """
    if EventTable.open(warehouse, channel) is None:
        raise NoNotifications(channel)
    name = name_of(folder_of(channel))
    with build_shadow_tables(warehouse, [name]) as shadow:
        for _ in range(ATTEMPTS):
            present = open_if_readable(warehouse, name)
            # After `present` was opened: what others fold from here on makes the commit through it fail.
            fold_topic(shadow, channel)
            built = PushTopicState.open(shadow, folder_of(channel))
            assert built is not None, name
            position = built.applied(channel)
            try:
                put_in_place(shadow, name, present, {channel: position})
            except ConcurrentCommit:
                continue
            finish(shadow)
            return RebuildReport(folder_of(channel), built.counts()["rows"], position)
    raise ConcurrentCommit(name, f"it moved on {ATTEMPTS} times while it was built again")
