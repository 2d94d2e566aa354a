"""A committed transaction -> its change events, encoded (facts sections 5 to 7).

The way of an event: each record's change is drafted, the steps may rewrite the drafts, equal drafts are merged, events
are numbered, and those of selected entities are encoded.

A step sees a whole transaction's drafts, one record each. A difference instead of a large text, a gap instead of an
event too large, one overflow event an entity instead of all its events: each is a function added to `steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sfcdc_assets.emulator.avro.event_body import EventCodec
from sfcdc_assets.emulator.event_draft import EventDraft, draft, merge
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.transaction import Transaction

DraftStep = Callable[[Transaction, Sequence[EventDraft]], Sequence[EventDraft]]
"""Rewrites a transaction's drafts before they are merged and numbered."""

MAX_RECORD_IDS = 200
"""Records of one merged event. Salesforce publishes no maximum; 200 is the chunk in which it processes bulk changes."""


@dataclass(frozen=True)
class ChangeEvent:
    """One event as published, before the bus gives it a uuid and a replay id."""

    entity: str
    change_type: str
    record_ids: tuple[str, ...]
    sequence_number: int
    schema_id: str
    payload: bytes


class ChangeEventBuilder:
    """Builds events in the current schema of each entity; a definition that was replaced gets a new schema.

    `definitions` is asked anew each time, since an org replaces its definitions when one of them changes.
    """

    def __init__(
        self,
        definitions: Callable[[], Mapping[str, ObjectDefinition]],
        *,
        steps: Sequence[DraftStep] = (),
        max_record_ids: int = MAX_RECORD_IDS,
    ) -> None:
        self._definitions = definitions
        self._steps = tuple(steps)
        self._max_record_ids = max_record_ids
        self._codecs: dict[str, tuple[ObjectDefinition, EventCodec]] = {}

    def codec(self, entity: str) -> EventCodec:
        """The codec of an entity's newest schema. Raises KeyError for an entity the org does not have."""
        definition = self._definitions()[entity]
        known = self._codecs.get(entity)
        if known is None or known[0] is not definition:
            known = self._codecs[entity] = (definition, EventCodec(definition))
        return known[1]

    def events(self, transaction: Transaction, selected: Collection[str]) -> list[ChangeEvent]:
        """The events of `transaction` in the order of their sequence numbers, which start at 1.

        An entity that is not selected uses up its numbers and publishes nothing, so a stream shows holes.
        """
        drafted = (draft(change, self.codec(change.entity)) for change in transaction.changes)
        drafts: Sequence[EventDraft] = [each for each in drafted if each is not None]
        for step in self._steps:
            drafts = step(transaction, drafts)
        return [
            self._encode(transaction, each, number)
            for number, each in enumerate(merge(drafts, self._max_record_ids), start=1)
            if each.entity in selected
        ]

    def _encode(self, transaction: Transaction, each: EventDraft, sequence_number: int) -> ChangeEvent:
        codec = self.codec(each.entity)
        header = {
            "entityName": each.entity,
            "recordIds": list(each.record_ids),
            "changeType": each.change_type,
            "changeOrigin": transaction.change_origin,
            "transactionKey": transaction.transaction_key,
            "sequenceNumber": sequence_number,
            "commitTimestamp": transaction.commit_timestamp,
            "commitNumber": transaction.commit_number,
            "commitUser": transaction.commit_user,
            "nulledFields": codec.bitmap(each.nulled_fields),
            "diffFields": codec.bitmap(each.diff_fields),
            "changedFields": codec.bitmap(each.changed_fields),
        }
        payload = codec.payload(header, codec.body(each.values, each.values))
        return ChangeEvent(each.entity, each.change_type, each.record_ids, sequence_number, codec.schema_id, payload)
