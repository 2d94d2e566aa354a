"""A committed transaction -> its change events, encoded.

The way of an event: each record's change is drafted, the steps may rewrite the drafts, equal drafts are merged, events
are numbered, those of selected entities pass the last steps and are encoded. An event too large becomes a gap.

A step sees a whole transaction's drafts: before merging one record each, at the end one event each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.events.bus_event import BusEvent
from sfcdc_assets.emulator.events.event_draft import Damage, EventDraft, draft, merge
from sfcdc_assets.emulator.events.steps.gaps import as_gap
from sfcdc_assets.emulator.org.transaction import Transaction

DraftStep = Callable[[Transaction, Sequence[EventDraft]], Sequence[EventDraft]]
"""Rewrites a transaction's drafts."""

MAX_RECORD_IDS = 200
"""Records of one merged event. Salesforce publishes no maximum; 200 is the chunk in which it processes bulk changes."""
UNKNOWN_CHANGE_TYPE = "TRANSFER"
"""A change type that the org's events do not have: for events in a schema that names it nevertheless."""
_GARBAGE = b"\xff" * 24
"""No Avro reader gets past this: as a branch, a length or a position it is far out of bounds."""


@dataclass(frozen=True, kw_only=True)
class ChangeEvent(BusEvent):
    """The event of a change of an object's records."""

    change_type: str
    record_ids: tuple[str, ...]
    sequence_number: int


class ChangeEventBuilder:
    """Builds events in the current schema of each entity; a definition that was replaced gets a new schema.

    `definitions` and `max_event_bytes` are asked again each time, since an org may change them while it runs.
    """

    def __init__(
        self,
        definitions: Callable[[], Mapping[str, ObjectDefinition]],
        *,
        steps: Sequence[DraftStep] = (),
        last_steps: Sequence[DraftStep] = (),
        max_record_ids: int = MAX_RECORD_IDS,
        max_event_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._definitions = definitions
        self.steps = tuple(steps)
        self.last_steps = tuple(last_steps)
        self._max_record_ids = max_record_ids
        self._max_event_bytes = max_event_bytes
        self._codecs: dict[tuple[str, tuple[str, ...]], tuple[ObjectDefinition, EventCodec]] = {}

    def codec(self, entity: str, *more_change_types: str) -> EventCodec:
        """Return the codec of an entity's newest schema. Raises KeyError for an entity the org does not have."""
        definition = self._definitions()[entity]
        known = self._codecs.get((entity, more_change_types))
        if known is None or known[0] is not definition:
            known = self._codecs[entity, more_change_types] = (definition, EventCodec(definition, more_change_types))
        return known[1]

    def events(self, transaction: Transaction, selected: Collection[str]) -> list[ChangeEvent]:
        """Return the events of `transaction` in the order of their sequence numbers, which start at 1.

        An entity that is not selected uses up its numbers and publishes nothing, so a stream shows holes. One that
        can have no change events uses up none.
        """
        known = self._definitions()
        drafted = (
            draft(change, self.codec(change.entity))
            for change in transaction.changes
            if known[change.entity].has_change_events
        )
        drafts: Sequence[EventDraft] = [each for each in drafted if each is not None]
        for step in self.steps:
            drafts = step(transaction, drafts)
        drafts = [
            replace(each, sequence_number=each.sequence_number or number)
            for number, each in enumerate(merge(drafts, self._max_record_ids), start=1)
            if each.entity in selected
        ]
        for step in self.last_steps:
            drafts = step(transaction, drafts)
        return [self._event(transaction, each) for each in drafts]

    def _event(self, transaction: Transaction, each: EventDraft) -> ChangeEvent:
        event = self._whole_or_gap(transaction, each)
        if not each.channel_parts:
            return event
        payloads = tuple(
            (
                channel,
                tuple(self._whole_or_gap(transaction, replace(part, damage=each.damage)).payload for part in parts),
            )
            for channel, parts in each.channel_parts
        )
        return replace(event, channel_payloads=payloads)

    def _whole_or_gap(self, transaction: Transaction, each: EventDraft) -> ChangeEvent:
        event = self._encoded(transaction, each)
        if self._max_event_bytes is not None and len(event.payload) > self._max_event_bytes():
            return self._encoded(transaction, as_gap(each))
        return event

    def _encoded(self, transaction: Transaction, each: EventDraft) -> ChangeEvent:
        is_unknown = each.damage is Damage.CHANGE_TYPE
        codec = self.codec(each.entity, UNKNOWN_CHANGE_TYPE) if is_unknown else self.codec(each.entity)
        header = {
            "entityName": each.entity,
            "recordIds": list(each.record_ids),
            "changeType": UNKNOWN_CHANGE_TYPE if is_unknown else each.change_type,
            "changeOrigin": transaction.change_origin,
            "transactionKey": each.transaction_key or transaction.transaction_key,
            "sequenceNumber": each.sequence_number,
            "commitTimestamp": transaction.commit_timestamp + each.later,
            "commitNumber": transaction.commit_number,
            "commitUser": transaction.commit_user,
            "nulledFields": codec.bitmap(each.nulled_fields),
            "diffFields": codec.bitmap(each.diff_fields),
            "changedFields": codec.bitmap(each.changed_fields),
        }
        if each.damage is Damage.HEADER:
            payload = _GARBAGE
        elif each.damage is Damage.BODY:
            payload = codec.header_payload(header) + _GARBAGE
        else:
            payload = codec.payload(header, codec.body(each.values, each.values))
        return ChangeEvent(
            entity=each.entity,
            change_type=each.change_type,
            record_ids=each.record_ids,
            sequence_number=each.sequence_number,
            schema_id=codec.schema_id,
            schema_json=codec.schema_json,
            payload=payload,
            event_id=each.event_id,
            beside_previous=each.beside_previous,
            copy_after=each.copy_after,
            is_selected=each.is_selected,
        )
