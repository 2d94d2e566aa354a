"""What one record's change says as an event, before events are merged, numbered and encoded (facts sections 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sfcdc_assets.emulator.avro.event_body import EventCodec
from sfcdc_assets.emulator.transaction import RecordChange


@dataclass(frozen=True)
class EventDraft:
    """An event to be: flat API names and stored values, in schema order. `values` holds only non-null fields.

    `before` is what the record held; it is no part of the event, but what a difference is computed against.
    """

    entity: str
    change_type: str
    record_ids: tuple[str, ...]
    values: Mapping[str, object] = field(default_factory=dict)
    changed_fields: tuple[str, ...] = ()
    nulled_fields: tuple[str, ...] = ()
    diff_fields: tuple[str, ...] = ()
    before: Mapping[str, object] | None = None


def draft(change: RecordChange, codec: EventCodec) -> EventDraft | None:
    """The event of one record's change, or None if it touched only fields that events leave out.

    CREATE and UNDELETE carry every field, DELETE none, UPDATE the changed ones; a changed field that is now null is
    both a changed and a nulled field.
    """
    base = EventDraft(change.entity, change.change_type, (change.record_id,), before=change.before)
    after = change.after or {}
    if change.change_type == "DELETE":
        return base
    if change.change_type != "UPDATE":
        return replace(base, values=_values(after, codec.paths))

    touched = set(change.changed_fields)
    for name in change.changed_fields:
        touched |= codec.whole_compounds.get(name, frozenset())
    changed = tuple(name for name in codec.paths if name in touched)
    if not changed:
        return None
    nulled = tuple(name for name in changed if after.get(name) is None)
    return replace(base, values=_values(after, changed), changed_fields=changed, nulled_fields=nulled)


def merge(drafts: Iterable[EventDraft], max_record_ids: int) -> list[EventDraft]:
    """One event for the same change of several records of one object, at the place of the first (facts section 7).

    A transaction names a record once, so moving a later record's change forward changes no record's order.
    """
    merged: dict[object, EventDraft] = {}
    full: list[EventDraft] = []
    order: dict[object, int] = {}
    for each in drafts:
        key = _sameness(each)
        known = merged.get(key)
        if known is None or len(known.record_ids) + len(each.record_ids) > max_record_ids:
            order[key] = len(full)
            full.append(each)
            merged[key] = each
        else:
            merged[key] = full[order[key]] = replace(known, record_ids=known.record_ids + each.record_ids)
    return full


def _values(values: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: value for name in names if (value := values.get(name)) is not None}


def _sameness(each: EventDraft) -> object:
    return (
        each.entity,
        each.change_type,
        tuple(each.values.items()),
        each.changed_fields,
        each.nulled_fields,
        each.diff_fields,
    )
