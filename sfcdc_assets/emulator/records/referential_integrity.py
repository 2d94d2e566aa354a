"""What a delete means for the records that refer to the deleted one, by the reference's deleteConstraint, the words of
the Metadata API (CustomField): a detail goes with its master, a lookup is cleared, or the delete is refused.

A record goes before its children; a delete is refused if any of the records that would go is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.definitions.object_definition import DeleteConstraint, FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError

if TYPE_CHECKING:
    from sfcdc_assets.emulator.records.identity_map import IdentityMap

_MOST_NAMED = 5
"""Records that a refusal names."""


@dataclass(frozen=True)
class Reference:
    """A live record whose field names a record that is to go."""

    child: ObjectDefinition
    child_id: str
    field: FieldDefinition
    parent: str
    parent_id: str


@dataclass(frozen=True)
class Consequences:
    """Of a delete: `deleted` are object and id of the records that go too, `cleared` the lookups that become null."""

    deleted: tuple[tuple[str, str], ...]
    cleared: tuple[Reference, ...]


def consequences_of_delete(work: IdentityMap, records: Sequence[tuple[str, str]]) -> Consequences:
    """Return the consequences of deleting live records (object and id) together; reads only. Raises RecordError
    DELETE_FAILED."""
    gone = dict.fromkeys(record_id for _, record_id in records)
    waiting, deleted, others = list(records), [], []
    for entity, record_id in waiting:  # grows while it is walked
        for child, field in work.references_to(entity):
            for child_id in work.referring_ids(child.name, field.name, record_id):
                if field.delete_constraint is not DeleteConstraint.CASCADE:
                    others.append(Reference(child, child_id, field, entity, record_id))
                elif child_id not in gone:
                    gone[child_id] = None
                    waiting.append((child.name, child_id))
                    deleted.append((child.name, child_id))
    left = [each for each in others if each.child_id not in gone]
    held = [each for each in left if each.field.delete_constraint is DeleteConstraint.RESTRICT]
    if held:
        raise _refused(work, held)
    return Consequences(tuple(deleted), tuple(left))


def _refused(work: IdentityMap, held: Sequence[Reference]) -> RecordError:
    first = held[0]
    parent, children = (
        work.live_record(first.parent, first.parent_id),
        [each for each in held if each.child == first.child],
    )
    name = parent.get("Name") or " ".join(str(parent[part]) for part in ("FirstName", "LastName") if parent.get(part))
    shown = ", ".join(
        str(work.live_record(each.child.name, each.child_id).get(each.child.name_field or "Id") or each.child_id)
        for each in children[:_MOST_NAMED]
    )
    return RecordError(
        "DELETE_FAILED",
        f"Your attempt to delete {name or first.parent_id} could not be completed because it is associated with the "
        f"following {first.child.label_plural.lower()}.: {shown}",
    )
