"""What a query for records selects: the columns of its SQL, and what each of them is in the result."""

from __future__ import annotations

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.object_definition import FieldDefinition
from sfcdc_assets.emulator.soql.compiled_query import ParentRecord, SelectedField
from sfcdc_assets.emulator.soql.field_path import FieldPaths
from sfcdc_assets.emulator.soql.formatting import formatted
from sfcdc_assets.emulator.soql.syntax import AliasedField, FieldGroup, FormattedField, Name, TypeOf, named_field
from sfcdc_assets.emulator.soql.typeof import parent_by_type

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
        fields = tuple(self._select(*item) for item in items)
        paths = [field.path for field in fields]
        for (name, *_), path in zip(items, paths, strict=True):
            if paths.count(path) > 1:
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

    def _select(self, name: Name, label: str | None, is_formatted: bool) -> SelectedField:
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
