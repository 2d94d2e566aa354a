"""Lost events: in rare cases the org raises none for a change, and only a comparison of all records finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sfcdc_assets.emulator.event_draft import EventDraft
from sfcdc_assets.emulator.faults import Fault, Faults
from sfcdc_assets.emulator.transaction import Transaction


class Losses:
    """Drops the record changes for which a loss is armed, before events are numbered: not even a number is missing."""

    def __init__(self, faults: Faults, is_exposed: Callable[[EventDraft], bool]) -> None:
        self._faults = faults
        self._is_exposed = is_exposed

    def __call__(self, transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        return [each for each in drafts if not (self._is_exposed(each) and self._faults.take(Fault.LOST_EVENT))]
