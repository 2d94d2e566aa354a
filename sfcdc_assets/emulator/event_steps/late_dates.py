"""Dates of the events of one transaction: Salesforce's may differ by a second or more, as some samples of the vendor's
have it (Change Data Capture Developer Guide, "Change Events for Lead Conversion", "Creating and Undeleting a Person
Account")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets.emulator.event_draft import EventDraft
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.transaction import Transaction

_SECOND = 1000


class LateDates:
    """Dates the last event of a transaction of several a second after the others, if `OrgSettings.late_last_events`."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org

    def __call__(self, transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        if not self._org.settings.late_last_events or len(drafts) < 2:
            return drafts
        *others, last = drafts
        parts = tuple(replace(part, later=_SECOND) for part in last.parts)
        return [*others, replace(last, later=_SECOND, parts=parts)]
