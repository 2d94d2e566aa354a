"""The keys of one org's assets, which begin with the prefix that its definitions were built with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import dagster as dg

from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of

_LAYERS = frozenset(
    {
        *("snapshot", "raw_events", "text_fields", "gap_reconciliation", "current_state", "history"),
        *("consistent_cuts", "push_topic_state", "views"),
    }
)


@dataclass(frozen=True)
class AssetKeys:
    """`prefix`: the parts that every key begins with; `("salesforce",)` gives `salesforce/current_state`."""

    prefix: tuple[str, ...]

    def of(self, name: str) -> dg.AssetKey:
        """Return `<prefix>/<name>`."""
        return dg.AssetKey([*self.prefix, name])

    def of_channel(self, channel: str) -> dg.AssetKey:
        """`/data/ChangeEvents` -> `salesforce/ChangeEvents`."""
        return self.of(folder_of(channel))

    def of_events(self, kind: ChannelKind) -> dg.AssetKey:
        """Return that of the channels of a kind that carries no change events."""
        return self.of(kind.value)

    def of_entity(self, entity: str) -> dg.AssetKey:
        """Return that of an entity's own asset: `Opportunity` -> `salesforce/opportunity`, as its view in SQL is
        named. An entity that is called as one of the layers has `_entity` after it."""
        name = entity.lower()
        return self.of(f"{name}_entity" if name in _LAYERS else name)

    @cached_property
    def snapshot(self) -> dg.AssetKey:
        """Rows as read from the org."""
        return self.of("snapshot")

    @cached_property
    def raw_events(self) -> dg.AssetKey:
        """Delivered events."""
        return self.of("raw_events")

    @cached_property
    def text_fields(self) -> dg.AssetKey:
        """Values of large text fields."""
        return self.of("text_fields")

    @cached_property
    def gap_reconciliation(self) -> dg.AssetKey:
        """The reconciliation ledgers."""
        return self.of("gap_reconciliation")

    @cached_property
    def current_state(self) -> dg.AssetKey:
        """Records as they are."""
        return self.of("current_state")

    @cached_property
    def history(self) -> dg.AssetKey:
        """Records as they were."""
        return self.of("history")

    @cached_property
    def consistent_cuts(self) -> dg.AssetKey:
        """Positions at which all tables stood together."""
        return self.of("consistent_cuts")

    @cached_property
    def push_topic_state(self) -> dg.AssetKey:
        """What is known of the records of PushTopics."""
        return self.of("push_topic_state")

    @cached_property
    def views(self) -> dg.AssetKey:
        """Files with views for other tools."""
        return self.of("views")

    @property
    def of_tables(self) -> tuple[dg.AssetKey, ...]:
        """What one reading of an entity's rows and their changes gives, all together."""
        return (self.text_fields, self.gap_reconciliation, self.current_state, self.history)
