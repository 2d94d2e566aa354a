"""What goes into the recycle bin with a record: those of its children that a parent takes along.

A reference in an object file says so by `cascade: true`. The order is that of a walk: a record, then its children.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition

if TYPE_CHECKING:
    from sfcdc_assets.emulator.unit_of_work import UnitOfWork


def dependants(
    work: UnitOfWork, definitions: Mapping[str, ObjectDefinition], entity: str, record_id: str
) -> Iterator[tuple[str, str]]:
    """Object and id of the live records that go with a record, each once."""
    seen = {record_id}
    waiting = [(entity, record_id)]
    while waiting:
        parent, parent_id = waiting.pop(0)
        for child, field in cascading(definitions, parent):
            for child_id in work.referring_ids(child.name, field.name, parent_id):
                if child_id not in seen:
                    seen.add(child_id)
                    waiting.append((child.name, child_id))
                    yield child.name, child_id


def cascading(
    definitions: Mapping[str, ObjectDefinition], parent: str
) -> Iterator[tuple[ObjectDefinition, FieldDefinition]]:
    """The references through which records go with one of the object `parent`."""
    for definition in definitions.values():
        for field in definition.stored_fields:
            if field.cascade_delete and parent in field.reference_to:
                yield definition, field
