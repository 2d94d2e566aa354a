"""Overflow: what a transaction changes beyond 100,000 changes is one event an object, without details
(docs/salesforce-streams.md, "Overflow events")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction

_OVERFLOW = "GAP_OVERFLOW"


class Overflow:
    """Cuts a transaction off at the threshold: the org's own, or that of an armed overflow (option `threshold`)."""

    def __init__(self, org: EmulatedOrg, faults: Faults, is_exposed: Callable[[EventDraft], bool]) -> None:
        self._org = org
        self._faults = faults
        self._is_exposed = is_exposed

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, or overflow events in their place where there are too many."""
        settings = self._org.settings
        threshold = settings.overflow_threshold
        size = sum(_changes(each) for each in drafts if self._is_exposed(each))
        if 0 < size <= threshold and self._faults.armed(Fault.OVERFLOW):
            threshold = int(self._faults.option(Fault.OVERFLOW, "threshold", 0))
            if size > threshold:
                self._faults.take(Fault.OVERFLOW)
        if size <= threshold:
            return drafts
        kept: list[EventDraft] = []
        overflowing: dict[str, EventDraft] = {}
        counted = 0
        for each in drafts:
            if not self._is_exposed(each):
                kept.append(each)
                continue
            counted += _changes(each)
            if counted <= threshold and settings.overflow_keeps_first:
                kept.append(each)
            else:
                overflowing[each.entity] = EventDraft(each.entity, _OVERFLOW, (settings.overflow_record_id,))
        return [*kept, *overflowing.values()]


def _changes(each: EventDraft) -> int:
    return max(1, len(each.changed_fields)) if each.change_type == "UPDATE" else 1
