"""TYPEOF: fields of a parent that may be of several objects, by the object it is of."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.soql.compiled_query import ParentByType, SelectedField
from sfcdc_assets.emulator.soql.field_path import FieldPaths
from sfcdc_assets.emulator.soql.refusal import no_such_column
from sfcdc_assets.emulator.soql.syntax import Name, TypeOf

_FIELDS_OF_NAME = frozenset(
    {"alias", "email", "firstname", "id", "isactive", "lastname", "name", "phone", "profileid", "title", "username"}
)
"""What ELSE of a TYPEOF may name: fields of the object Name, in lower case (https://developer.salesforce.com/docs/
atlas.en-us.object_reference.meta/object_reference/sforce_api_objects_name.htm)."""


def parent_by_type(item: TypeOf, paths: FieldPaths, columns: list[str]) -> ParentByType:
    """A TYPEOF among the selected fields; its SQL expressions are added to `columns`. Raises QueryError."""
    name, definition = item.relationship, paths.definition
    reference = _polymorphic(definition, name.text)
    if reference is None:
        reason = f"TYPEOF needs a polymorphic relationship, which {name.text} of {definition.name} is not"
        raise paths.refuse("INVALID_FIELD", name, reason)
    known = [paths.definitions[each] for each in reference.reference_to if each in paths.definitions]
    id_column = len(columns)
    columns.append(f"r.{quoted(reference.name)}")
    fields: dict[str, tuple[SelectedField, ...]] = {}
    for branch in item.branches:
        wanted = branch.entity.text.lower() if branch.entity is not None else None
        chosen = [each for each in known if each.name.lower() == wanted or (not wanted and each.name not in fields)]
        if branch.entity is not None and not chosen:
            reason = f"{branch.entity.text} is not an object that {name.text} may refer to"
            raise paths.refuse("INVALID_TYPE", branch.entity, reason)
        for parent in chosen:
            names = branch.fields if wanted else _names_of_any(branch.fields, parent, paths)
            fields[parent.name] = tuple(_of_parent(each, parent, reference, paths, columns) for each in names)
    return ParentByType(reference.relationship_name or name.text, id_column, fields, tuple(known))


def _polymorphic(definition: ObjectDefinition, relationship: str) -> FieldDefinition | None:
    for field in definition.fields:
        if (field.relationship_name or "").lower() == relationship.lower() and len(field.reference_to) > 1:
            return field
    return None


def _names_of_any(names: Sequence[Name], parent: ObjectDefinition, paths: FieldPaths) -> list[Name]:
    """The fields of ELSE that an object has: they are those of the object Name, of which each shows what it has."""
    for name in names:
        if name.text.lower() not in _FIELDS_OF_NAME:
            raise no_such_column(paths.query.text, name.position, name.text, "Name")
    return [name for name in names if parent.field(name.text) is not None]


def _of_parent(
    name: Name, parent: ObjectDefinition, reference: FieldDefinition, paths: FieldPaths, columns: list[str]
) -> SelectedField:
    inner, field = paths.expression(name, (name.text,), parent, "rp")
    if field.type in {"address", "location"}:
        raise paths.refuse("INVALID_FIELD", name, f"'{name.text}' can not be selected through a relationship")
    columns.append(f'(SELECT {inner} FROM {quoted(parent.name)} AS rp WHERE rp."Id" = r.{quoted(reference.name)})')
    return SelectedField((field.name,), field, len(columns) - 1)
