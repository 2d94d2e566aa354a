"""What of an event goes to custom channels: the event itself, or taken apart, enriched and filtered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.events.event_filter import matches
from sfcdc_assets.emulator.events.steps.enrichment import enriched, may_be_enriched
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction


class CustomChannels:
    """Gives each draft its form on every custom channel its object is on."""

    def __init__(self, org: EmulatedOrg, codec: Callable[[str], EventCodec]) -> None:
        self._org = org
        self._codec = codec

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, each with the channels that it is on."""
        selected = frozenset(self._org.selected_entities)
        return [self._on_channels(each, is_selected=each.entity in selected) for each in drafts]

    def _on_channels(self, each: EventDraft, *, is_selected: bool) -> EventDraft:
        channels = self._org.channels.custom_channels_of(each.entity)
        if is_selected and not channels:
            return each
        return replace(
            each,
            is_selected=is_selected,
            channel_parts=tuple((channel, parts) for channel in channels if (parts := self._parts(channel, each))),
        )

    def _parts(self, channel: str, each: EventDraft) -> tuple[EventDraft, ...]:
        names = self._org.channels.enriched_fields(channel, each.entity)
        if not names or not may_be_enriched(each):
            return (each,)
        codec = self._codec(each.entity)
        return tuple(
            replace(enriched(part, names, codec), sequence_number=each.sequence_number)
            for part in each.parts or (each,)
            if self._passes(channel, part)
        )

    def _passes(self, channel: str, part: EventDraft) -> bool:
        """Return whether the record is in the channel's filter. A gap tells no values, and is not asked."""
        expression = self._org.channels.filter_expression(channel, part.entity)
        if expression is None or part.record is None:
            return True
        return matches(expression, self._org.definitions[part.entity], part.record, self._org.database)
