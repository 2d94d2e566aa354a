"""Objects that go with another one and that nobody makes by hand: its history of tracked fields, the shares of its
records, their feeds.

`AccountHistory`, `AccountShare`, `AccountFeed` of a standard object, `X__History`, `X__Share`, `X__Feed` of `X__c`. A
history has no stamp but CreatedDate, a share none but LastModifiedDate. The history of opportunities is
OpportunityFieldHistory (Object Reference, "History", "Share" and "Feed").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfcdc_assets.emulator.definitions.object_access import Companion, CompanionKind
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import BASE62

MOST_TRACKED = 20
_NEVER_TRACKED = frozenset({"Id", "IsDeleted", "CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById",
                            "SystemModstamp"})  # fmt: skip
_PREFIXES: Mapping[CompanionKind, str] = {CompanionKind.HISTORY: "h", CompanionKind.SHARE: "s", CompanionKind.FEED: "f"}
_AUDIT: Mapping[CompanionKind, Sequence[str]] = {
    CompanionKind.HISTORY: ("CreatedDate", "CreatedById"),
    CompanionKind.SHARE: ("LastModifiedDate", "LastModifiedById"),
    CompanionKind.FEED: ("CreatedDate", "CreatedById", "LastModifiedDate", "SystemModstamp"),
}
_ACCESS: Mapping[CompanionKind, Mapping[str, Any]] = {
    CompanionKind.HISTORY: {"events": False, "bulk": True},
    CompanionKind.SHARE: {"events": False, "replicateable": False, "purged_on_delete": True},
    CompanionKind.FEED: {"events": False, "bulk": False},
}


def tracked_object(definition: ObjectDefinition, names: Sequence[str]) -> ObjectDefinition:
    """Return the object with history of these fields. Raises RecordError for more than 20, and for fields whose changes
    no history has: formulas, roll-ups, automatic numbers, times."""
    if len(names) > MOST_TRACKED:
        raise RecordError("LIMIT_EXCEEDED", f"at most {MOST_TRACKED} fields of {definition.name} can be tracked")
    for name in names:
        field = definition.fields_by_name.get(name)
        if field is None or not is_trackable(field):
            raise RecordError("INVALID_FIELD", f"{definition.name}.{name} cannot be tracked", (name,))
    return replace(definition, tracked=tuple(names))


def is_trackable(field: FieldDefinition) -> bool:
    """Return whether a history can have the field's changes."""
    is_own = field.is_stored and not (field.calculated or field.derived or field.auto_number)
    return is_own and field.type not in {"time", "base64", "anyType"} and field.name not in _NEVER_TRACKED


def companion_name(definition: ObjectDefinition, kind: CompanionKind) -> str:
    """Return the name of an object's companion."""
    if definition.custom:
        return definition.name.removesuffix("c") + kind
    return f"{definition.name}Field{kind}" if (definition.name, kind) == ("Opportunity", "History") else (
        definition.name + kind
    )  # fmt: skip


def companion_of(definition: ObjectDefinition, kind: CompanionKind, used: Collection[str]) -> ObjectDefinition:
    """Return an object's companion, with a key prefix that is not among those in use."""
    is_feed = kind is CompanionKind.FEED
    parent_field = "ParentId" if definition.custom or is_feed else f"{definition.name}Id"
    document = {
        "name": companion_name(definition, kind),
        "label": f"{definition.label} {kind}",
        "key_prefix": _prefix(kind, definition.key_prefix, used),
        "name_field": None,
        "audit": _AUDIT[kind],
        "access": _ACCESS[kind],
        "fields": [
            {
                parent_field: {
                    "type": "reference",
                    "to": definition.name,
                    "required": True,
                    "delete_constraint": "Cascade",
                    "children": {CompanionKind.HISTORY: "Histories", CompanionKind.SHARE: "Shares"}.get(kind, "Feeds"),
                }
            },
            *_fields(definition, kind),
            "audit",
        ],
    }
    made = object_definition(document, definition.name)
    return replace(made, custom=definition.custom, companion=Companion(definition.name, kind, parent_field))


def _fields(definition: ObjectDefinition, kind: CompanionKind) -> list[dict[str, Any]]:
    if kind is CompanionKind.HISTORY:
        return [
            {"Field": {"type": "picklist", "label": "Changed Field"}},
            {"DataType": {"type": "picklist", "length": 40}},
            {"OldValue": {"type": "anyType"}},
            {"NewValue": {"type": "anyType"}},
        ]
    if kind is CompanionKind.SHARE:
        level = "AccessLevel" if definition.custom else f"{definition.name}AccessLevel"
        return [
            {"UserOrGroupId": {"type": "reference", "to": "User", "required": True, "label": "User/Group ID"}},
            {level: {"type": "picklist", "values": ["Read", "Edit", "All"], "restricted": True, "length": 40}},
            {"RowCause": {"type": "picklist", "values": ["Owner", "Manual", "Rule"], "length": 40}},
        ]
    return [
        {"Type": {"type": "picklist", "values": ["TrackedChange", "TextPost"], "length": 40}},
        {"Title": {"type": "string"}},
        {"Body": {"type": "long_text"}},
        {"LikeCount": {"type": "int"}},
        {"CommentCount": {"type": "int"}},
    ]


def _prefix(kind: CompanionKind, parent: str, used: Collection[str]) -> str:
    """Two objects never share one here, as the id of a record says whose it is."""
    place = sum(BASE62.index(letter) * 62**n for n, letter in enumerate(reversed(parent)))
    for step in range(62**2):
        first, second = divmod((place + step) % 62**2, 62)
        prefix = _PREFIXES[kind] + BASE62[first] + BASE62[second]
        if prefix not in used:
            return prefix
    raise RecordError("LIMIT_EXCEEDED", f"there are no key prefixes left for {kind}")


def with_companions(
    definitions: Sequence[ObjectDefinition],
    *,
    history: Mapping[str, Sequence[str]] | None = None,
    shared: Collection[str] = (),
    fed: Collection[str] = (),
) -> tuple[ObjectDefinition, ...]:
    """Return the objects of an org with companions of some: `history` has the tracked fields by object, `shared` and
    `fed` name those with shares and feeds."""
    tracked = history or {}
    made = [tracked_object(each, tracked[each.name]) if each.name in tracked else each for each in definitions]
    used = {each.key_prefix for each in made}
    for kind, names in (
        (CompanionKind.HISTORY, tracked.keys()),
        (CompanionKind.SHARE, shared),
        (CompanionKind.FEED, fed),
    ):
        for parent in [each for each in made if each.name in names]:
            companion = companion_of(parent, kind, used)
            used.add(companion.key_prefix)
            made.append(companion)
    return tuple(made)
