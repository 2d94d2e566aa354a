"""What a query for records selects: the columns of its SQL, and what each of them is in the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.soql.compiled_query import ParentByType, ParentRecord, SelectedField
from sfcdc_assets.emulator.soql.field_path import FieldPaths
from sfcdc_assets.emulator.soql.refusal import no_such_column
from sfcdc_assets.emulator.soql.syntax import AliasedField, FieldGroup, FormattedField, Name, TypeOf, named_field

_FORMATTED = frozenset({"int", "double", "currency", "percent", "date", "datetime", "time"})
_FIELDS_OF_NAME = frozenset(
    {"alias", "email", "firstname", "id", "isactive", "lastname", "name", "phone", "profileid", "title", "username"}
)
"""What ELSE of a TYPEOF may name: fields of the object Name, in lower case (https://developer.salesforce.com/docs/
atlas.en-us.object_reference.meta/object_reference/sforce_api_objects_name.htm)."""


def parent_by_type(item: TypeOf, paths: FieldPaths, columns: list[str]) -> ParentByType:
    """Return a TYPEOF among the selected fields; its SQL expressions are added to `columns`. Raises QueryError."""
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
    """Return the fields of ELSE that an object has: they are those of the object Name, of which each shows what it
    has."""
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


_MAX_FIELD_GROUP_LIMIT = 200


class Selection:
    """The select list of one query. Column 0 is the record's Id. Raises QueryError: INVALID_FIELD, INVALID_TYPE,
    MALFORMED_QUERY."""

    def __init__(self, paths: FieldPaths) -> None:
        self._paths = paths
        self._parents: dict[tuple[str, ...], ParentRecord] = {}
        self.columns = ['r."Id"']
        """SQL expressions; more may be appended."""
        self.fields = self._fields()
        items = paths.query.items
        self.by_type = tuple(parent_by_type(item, paths, self.columns) for item in items if isinstance(item, TypeOf))

    @property
    def parents(self) -> tuple[ParentRecord, ...]:
        """The parents of which fields are selected, nearer ones before those further away."""
        return tuple(self._parents.values())

    def _fields(self) -> tuple[SelectedField, ...]:
        items = self._items()
        fields = tuple(self._select(name, label, is_formatted=is_formatted) for name, label, is_formatted in items)
        times = Counter(field.path for field in fields)
        for (name, *_), field in zip(items, fields, strict=True):
            if times[path := field.path] > 1:
                raise self._paths.refuse("INVALID_FIELD", name, f"duplicate field selected: {'.'.join(path)}")
        return fields

    def _items(self) -> list[tuple[Name, str | None, bool]]:
        """Each selected field, the name it has in the result if that is another, and whether it is formatted."""
        items: list[tuple[Name, str | None, bool]] = []
        for item in self._paths.query.items:
            if isinstance(item, Name):
                items.append((item, None, False))
            elif isinstance(item, AliasedField):
                if not item.is_label:
                    reason = "only aggregate expressions use field aliasing"
                    raise self._paths.refuse("MALFORMED_QUERY", item.field, reason)
                items.append((item.field, item.alias if item.alias != item.field.text else None, False))
            elif isinstance(item, FormattedField):
                items.append((named_field(item.operand), item.alias, True))
            elif isinstance(item, FieldGroup):
                items.extend((name, None, False) for name in self._group(item.group))
        return items

    def _group(self, group: Name) -> list[Name]:
        kind, limit = group.text.upper(), self._paths.query.limit
        if kind not in {"ALL", "STANDARD", "CUSTOM"}:
            raise self._paths.refuse("MALFORMED_QUERY", group, f"unexpected token: '{group.text}'")
        if kind != "STANDARD" and (limit is None or limit > _MAX_FIELD_GROUP_LIMIT):
            reason = f"The SOQL FIELDS function must have a LIMIT of at most {_MAX_FIELD_GROUP_LIMIT}"
            raise self._paths.refuse("MALFORMED_QUERY", group, reason)
        return [
            Name(field.name, group.position)
            for field in self._paths.definition.fields
            if kind == "ALL" or field.custom == (kind == "CUSTOM")
        ]

    def _select(self, name: Name, label: str | None, *, is_formatted: bool) -> SelectedField:
        steps = self._paths.steps(name)
        expression, field = self._paths.expression(name, steps, self._paths.definition)
        if is_formatted:
            expression, field = formatted(expression, field)
        relationships = self._relationships(name, steps[:-1])
        first = len(self.columns)
        components: tuple[FieldDefinition, ...] = ()
        if field.type in {"address", "location"}:
            if relationships:
                reason = f"'{name.text}' can not be selected through a relationship"
                raise self._paths.refuse("INVALID_FIELD", name, reason)
            components = self._paths.definition.components[field.name]
            self.columns.extend(f"r.{quoted(part.name)}" for part in components)
        else:
            self.columns.append(expression)
        return SelectedField((*relationships, label or field.name), field, first, components)

    def _relationships(self, name: Name, steps: tuple[str, ...]) -> tuple[str, ...]:
        """Note the parent records on the way to a field; returns the relationship names as they are defined."""
        definition = self._paths.definition
        known: tuple[str, ...] = ()
        for depth, step in enumerate(steps):
            reference, definition = self._paths.relationship(name, step, definition)
            known = (*known, reference.relationship_name or step)
            if known not in self._parents:
                self._parents[known] = ParentRecord(known, definition, len(self.columns))
                expression, _ = self._paths.expression(name, (*steps[: depth + 1], "Id"), self._paths.definition)
                self.columns.append(expression)
        return known


def formatted(expression: str, field: FieldDefinition) -> tuple[str, FieldDefinition]:
    """Return the SQL expression and the form of a formatted value; a text stays as it is."""
    if field.type not in _FORMATTED:
        return expression, field
    return f"sf_format('{field.type}', {field.scale}, {expression})", replace(field, type="string")
