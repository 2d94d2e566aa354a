"""Gap events: the org says that records changed, and not what is in them now (docs/salesforce-streams.md, "Gap
events")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction

_GAP = "GAP_"


def as_gap(each: EventDraft) -> EventDraft:
    """Return the gap event in place of an event: same records, no fields, empty bitmaps. A gap stays what it is."""
    if each.change_type.startswith(_GAP):
        return each
    return replace(
        each,
        change_type=_GAP + each.change_type,
        values={},
        changed_fields=(),
        nulled_fields=(),
        diff_fields=(),
        parts=(),
    )


class InternalErrors:
    """Turns the record changes for which an internal error is armed into gaps."""

    def __init__(self, faults: Faults, is_exposed: Callable[[EventDraft], bool]) -> None:
        self._faults = faults
        self._is_exposed = is_exposed

    def __call__(self, _transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, those that an armed fault strikes as gap events."""
        return [
            as_gap(each) if self._is_exposed(each) and self._faults.take(Fault.INTERNAL_ERROR) else each
            for each in drafts
        ]


class DatabaseChanges:
    """Makes the events of changes that were made in the database, past the application: archiving, and transactions for
    which it is armed.

    All are gaps, merged for each object and kind of change, with sequence number 1 and a database id as key.
    """

    def __init__(self, org: EmulatedOrg, faults: Faults, is_exposed: Callable[[EventDraft], bool]) -> None:
        self._org = org
        self._faults = faults
        self._is_exposed = is_exposed

    def __call__(self, transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events, those of a change made in the database itself as gap events."""
        is_one = any(change.is_database_change for change in transaction.changes)
        if not any(self._is_exposed(each) for each in drafts) or not (
            is_one or self._faults.take(Fault.DATABASE_CHANGE)
        ):
            return drafts
        # 15 characters, `0Mcxx000000000B`, as the vendor's sample has it.
        key = new_id("0Mc", instance_characters(self._org.seed), transaction.commit_number)[:15]
        return [replace(as_gap(each), transaction_key=key, sequence_number=1) for each in drafts]
