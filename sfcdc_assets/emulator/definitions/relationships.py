"""Which records refer to an object, and under which name its records know them: `Contacts` of an Account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition

_AUDIT = frozenset({"CreatedById", "LastModifiedById", "OwnerId", "MasterRecordId"})


@dataclass(frozen=True)
class ChildRelationship:
    """Records of `child` whose `field` names the parent. `name` is None where Salesforce has none for SOQL."""

    name: str | None
    child: ObjectDefinition
    field: FieldDefinition


def child_relationships(
    parent: ObjectDefinition, definitions: Mapping[str, ObjectDefinition]
) -> tuple[ChildRelationship, ...]:
    """All references to an object, by child and field.

    The name is the child's plural, with `__r` for a custom field; `Child` before it where a record has children of its
    own kind. Where two fields of a child name the same parent, the second one's relationship is named by the field too.
    """
    found: list[ChildRelationship] = []
    taken: set[str] = set()
    for child in definitions.values():
        for field in child.references:
            if parent.name in field.reference_to:
                name = _name(parent, child, field, taken)
                taken.add((name or "").lower())
                found.append(ChildRelationship(name, child, field))
    return tuple(found)


def child_relationship(
    parent: ObjectDefinition, definitions: Mapping[str, ObjectDefinition], name: str
) -> ChildRelationship | None:
    """Return the relationship of that name, whatever the case of its letters."""
    for each in child_relationships(parent, definitions):
        if each.name is not None and each.name.lower() == name.lower():
            return each
    return None


def _name(parent: ObjectDefinition, child: ObjectDefinition, field: FieldDefinition, taken: set[str]) -> str | None:
    if field.name in _AUDIT:
        return None
    plural = "".join(child.label_plural.split())
    if field.child_relationship_name is not None:
        return field.child_relationship_name
    if field.custom:
        name = f"{plural}__r"
        return name if name.lower() not in taken else f"{plural}_{field.name.removesuffix('__c')}__r"
    name = f"Child{plural}" if child.name == parent.name else plural
    return name if name.lower() not in taken else f"{plural}_{field.name.removesuffix('Id')}"
