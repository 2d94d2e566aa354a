"""Faults of single events as they are published: second copies and payloads that cannot be read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from sfcdc_assets.emulator.events.event_draft import Damage, EventDraft
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction

_DAMAGES = {
    Fault.GARBLED_BODY: Damage.BODY,
    Fault.GARBLED_HEADER: Damage.HEADER,
    Fault.UNKNOWN_CHANGE_TYPE: Damage.CHANGE_TYPE,
}


class PublishingFaults:
    """Marks events for which such a fault is armed; the builder damages them and the bus publishes the copies."""

    def __init__(self, org: EmulatedOrg, faults: Faults) -> None:
        self._org = org
        self._faults = faults

    def __call__(self, transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, those that an armed fault strikes marked for it."""
        return [self._marked(transaction, each) for each in drafts]

    def _marked(self, transaction: Transaction, each: EventDraft) -> EventDraft:
        damage = next((damage for fault, damage in _DAMAGES.items() if self._faults.take(fault)), None)
        if damage is not None:
            each = replace(each, damage=damage)
        # Siblings share a replay id, and a copy between them would cut them apart.
        if each.is_sibling or not self._faults.take(Fault.DUPLICATE):
            return each
        dice = Random(f"{self._org.seed}:copy:{transaction.commit_number}:{each.sequence_number}:{each.entity}")
        event_id = str(uuid.UUID(int=dice.getrandbits(128), version=4))
        return replace(each, event_id=event_id, copy_after=int(self._faults.option(Fault.DUPLICATE, "after", 0)))


class Losses:
    """Drops the record changes for which a loss is armed, before events are numbered: not even a number is missing."""

    def __init__(self, faults: Faults, is_exposed: Callable[[EventDraft], bool]) -> None:
        self._faults = faults
        self._is_exposed = is_exposed

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events but for those that an armed fault loses."""
        return [each for each in drafts if not (self._is_exposed(each) and self._faults.take(Fault.LOST_EVENT))]


_SECOND = 1000


class LateDates:
    """Dates the last event of a transaction of several a second after the others, if `OrgSettings.late_last_events`."""

    def __init__(self, org: EmulatedOrg) -> None:
        self._org = org

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, the last one dated a second later where the org is set to do so."""
        if not self._org.settings.late_last_events or len(drafts) < 2:
            return drafts
        *others, last = drafts
        parts = tuple(replace(part, later=_SECOND) for part in last.parts)
        return [*others, replace(last, later=_SECOND, parts=parts)]
