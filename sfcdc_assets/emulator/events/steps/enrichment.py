"""Enriched events, as custom channels have them (docs/salesforce-streams.md, "Enrichment"): one for each record, with
more than the change.

The several events of a merged one share its replay id. Salesforce reads the extra values when it delivers; this org
reads them when it publishes, so a replay shows the same values again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.events.event_draft import EventDraft
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import DELETE, UPDATE, Transaction
from sfcdc_assets.emulator.setup.channels import CHANGE_EVENTS

_MOST_CHOSEN = 2
_NOT_CHOSEN = frozenset({"CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById"})


class Enrichment:
    """Enriches events of objects that have enriched fields by the settings, or for which it is armed.

    An armed one carries the fields of its option `fields` (names with commas), or else the record's first two.
    """

    def __init__(self, org: EmulatedOrg, faults: Faults, codec: Callable[[str], EventCodec]) -> None:
        self._org = org
        self._faults = faults
        self._codec = codec

    def __call__(self, transaction: Transaction, drafts: Sequence[EventDraft]) -> Sequence[EventDraft]:
        """Return the events with the values of the enriched fields beside what changed."""
        result: list[EventDraft] = []
        for each in drafts:
            if not may_be_enriched(each):
                result.append(each)
                continue
            names: Sequence[str] | None = self._org.settings.enriched_fields.get(each.entity)
            if names is None:
                names = self._org.channels.enriched_fields(CHANGE_EVENTS, each.entity) or None
            if names is None and self._faults.take(Fault.ENRICHED):
                option = str(self._faults.option(Fault.ENRICHED, "fields", ""))
                names = [name.strip() for name in option.split(",") if name.strip()] or self._first_fields(each)
            result.extend([each] if names is None else self._taken_apart(transaction, each, names))
        return result

    def _taken_apart(self, transaction: Transaction, each: EventDraft, names: Sequence[str]) -> list[EventDraft]:
        parts = each.parts or (each,)
        shared = self._org.settings.siblings_share_event_id and len(parts) > 1
        event_id = self._event_id(transaction, each) if shared else None
        return [
            replace(
                enriched(part, names, self._codec(part.entity)),
                sequence_number=each.sequence_number,
                event_id=event_id,
                beside_previous=number > 0,
                is_sibling=len(parts) > 1,
                is_selected=each.is_selected,
                channel_parts=each.channel_parts if number == 0 else (),
            )
            for number, part in enumerate(parts)
        ]

    def _first_fields(self, each: EventDraft) -> list[str]:
        record = each.record or {}
        paths = self._codec(each.entity).paths
        unchanged = (name for name in paths if name not in each.changed_fields and name not in _NOT_CHOSEN)
        return [name for name in unchanged if record.get(name) is not None][:_MOST_CHOSEN]

    def _event_id(self, transaction: Transaction, each: EventDraft) -> str:
        dice = Random(f"{self._org.seed}:siblings:{transaction.commit_number}:{each.sequence_number}")
        return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def may_be_enriched(each: EventDraft) -> bool:
    """Gap and overflow events are not, and a wildcard names no record."""
    return not each.change_type.startswith("GAP_") and not each.record_ids[0].endswith("*")


def enriched(part: EventDraft, names: Sequence[str], codec: EventCodec) -> EventDraft:
    """Return an update or delete of one record with those of the fields it does not change anyway and that are not
    empty."""
    if part.change_type not in (UPDATE, DELETE) or part.record is None:
        return part
    record = part.record
    extra = {
        name: record[name]
        for name in names
        if name in codec.paths and name not in part.changed_fields and record.get(name) is not None
    }
    return replace(part, values={**part.values, **extra})
