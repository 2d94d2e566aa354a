"""What one record's change says as an event, before events are merged, numbered and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.org.transaction import RecordChange


class Damage(StrEnum):
    """What is wrong with an event's payload."""

    BODY = "body"
    """The header can be read, what follows it cannot."""
    HEADER = "header"
    """Nothing can be read."""
    CHANGE_TYPE = "change_type"
    """All can be read, but the change type is one that nobody knows yet, in a schema that has it."""


@dataclass(frozen=True)
class EventDraft:
    """An event to be: flat API names and stored values, in schema order. `values` holds only non-null fields."""

    entity: str
    change_type: str
    record_ids: tuple[str, ...]
    values: Mapping[str, object] = field(default_factory=dict)
    changed_fields: tuple[str, ...] = ()
    nulled_fields: tuple[str, ...] = ()
    diff_fields: tuple[str, ...] = ()
    before: Mapping[str, object] | None = None
    """What the record held; no part of the event, but what a difference is computed against."""
    record: Mapping[str, object] | None = None
    """What the record holds now, or held when it was deleted: where enriched fields come from."""
    parts: tuple[EventDraft, ...] = ()
    """The drafts that were merged into this one; none if it was not merged."""
    sequence_number: int = 0
    """0 until events are numbered. A draft that brings its own (a gap from the database) keeps it."""
    transaction_key: str | None = None
    """In place of the transaction's own."""
    later: int = 0
    """Milliseconds by which its commitTimestamp is after the transaction's."""
    event_id: str | None = None
    """The event's uuid, if the bus is not to choose one."""
    beside_previous: bool = False
    """Shares the replay id of the event before it."""
    is_alone: bool = False
    """Never merged with others."""
    is_sibling: bool = False
    """One of several events into which a merged one was taken apart."""
    copy_after: int | None = None
    """Published a second time, under the same uuid, after so many other events."""
    damage: Damage | None = None
    is_selected: bool = True
    """On the channel of all; one that is not is on custom channels, and on its object's own."""
    channel_parts: tuple[tuple[str, tuple[EventDraft, ...]], ...] = ()
    """Custom channels, and what is published on them in this draft's place."""


def draft(change: RecordChange, codec: EventCodec) -> EventDraft | None:
    """Return the event of one record's change, or None if it touched only fields that events leave out.

    CREATE and UNDELETE carry every field, DELETE none, UPDATE the changed ones; a changed field that is now null is
    both a changed and a nulled field.
    """
    if change.is_silent:
        return None
    after = change.after or {}
    base = partial(
        EventDraft,
        change.entity,
        record_ids=(change.record_id,),
        before=change.before,
        record=change.before if change.after is None else change.after,
    )
    if change.is_conversion:
        return base(f"GAP_{change.change_type}", is_alone=True)
    if change.is_database_change:
        return base(change.change_type)
    if change.change_type == "DELETE":
        return base(change.change_type)
    if change.change_type != "UPDATE":
        carried = _one_name(set(codec.paths), after, codec)
        return base(change.change_type, values=_values(after, [name for name in codec.paths if name in carried]))

    touched = set(change.changed_fields)
    for name in change.changed_fields:
        touched |= codec.whole_compounds.get(name, frozenset())
    touched = _one_name(touched, after, codec)
    changed = tuple(name for name in codec.paths if name in touched)
    if not changed:
        return None
    nulled = tuple(name for name in changed if after.get(name) is None)
    return base(change.change_type, values=_values(after, changed), changed_fields=changed, nulled_fields=nulled)


def merge(drafts: Iterable[EventDraft], max_record_ids: int) -> list[EventDraft]:
    """One event for the same change of several records of one object, at the place of the first
    (docs/salesforce-streams.md, "Merged and split events").

    A transaction names a record once, so moving a later record's change forward changes no record's order.
    """
    open_groups: dict[object, list[EventDraft]] = {}
    groups: list[list[EventDraft]] = []
    for each in drafts:
        key = _sameness(each)
        group = open_groups.get(key)
        if group is None or sum(len(part.record_ids) for part in group) + len(each.record_ids) > max_record_ids:
            group = open_groups[key] = []
            groups.append(group)
        group.append(each)
    return [_merged(group) for group in groups]


def _merged(group: list[EventDraft]) -> EventDraft:
    if len(group) == 1:
        return group[0]
    record_ids = tuple(record_id for part in group for record_id in part.record_ids)
    return replace(group[0], record_ids=record_ids, parts=tuple(group))


def _one_name(names: set[str], after: Mapping[str, object], codec: EventCodec) -> set[str]:
    """Return the fields without a name that a person's name repeats: as components for a person, as a text
    otherwise."""
    if not codec.name_parts or not names & {"Name", *codec.name_parts}:
        return names
    return names - {"Name"} if after.get("LastName") is not None else names - codec.name_parts | {"Name"}


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
        each.transaction_key,
        each.record_ids if each.is_alone else None,
    )
