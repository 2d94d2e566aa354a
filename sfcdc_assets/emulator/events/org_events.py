"""The events of an org: the builder with the steps that its settings and armed faults ask for."""

from __future__ import annotations

from sfcdc_assets.emulator.events.change_event_builder import ChangeEventBuilder
from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.events.steps.custom_channels import CustomChannels
from sfcdc_assets.emulator.events.steps.enrichment import Enrichment
from sfcdc_assets.emulator.events.steps.gaps import DatabaseChanges, InternalErrors
from sfcdc_assets.emulator.events.steps.hidden_fields import HiddenFields
from sfcdc_assets.emulator.events.steps.large_texts import LargeTexts
from sfcdc_assets.emulator.events.steps.overflow import Overflow
from sfcdc_assets.emulator.events.steps.publishing_faults import LateDates, Losses, PublishingFaults
from sfcdc_assets.emulator.events.steps.wildcards import Wildcards
from sfcdc_assets.emulator.faults.faults import Faults
from sfcdc_assets.emulator.org.org import EmulatedOrg


def org_events(org: EmulatedOrg, faults: Faults) -> ChangeEventBuilder:
    """Build the events of `org`, with the holes that are armed in `faults`."""

    def is_exposed(each: EventDraft) -> bool:
        """Return whether a change raises events, as only those use faults up; a wildcard stands for an object and is no
        record's change."""
        return each.entity in org.channels.published_entities and not each.record_ids[0].endswith("*")

    builder = ChangeEventBuilder(lambda: org.definitions, max_event_bytes=lambda: org.settings.max_event_bytes)
    builder.steps = (
        HiddenFields(org),
        LargeTexts(org, builder.codec),
        Wildcards(org),
        Losses(faults, is_exposed),
        DatabaseChanges(org, faults, is_exposed),
        InternalErrors(faults, is_exposed),
        Overflow(org, faults, is_exposed),
    )
    builder.last_steps = (
        LateDates(org),
        CustomChannels(org, builder.codec),
        Enrichment(org, faults, builder.codec),
        PublishingFaults(org, faults),
    )
    return builder
