"""What the names in a query stand for: objects of the org, and their fields, reached over at most five parents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfcdc_assets.emulator.definitions.object_definition import MASK, FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.formulas.formula_field import formula_sql
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.org.ids import EMPTY_ID
from sfcdc_assets.emulator.soql.refusal import no_such_column, no_such_object, refusal
from sfcdc_assets.emulator.soql.syntax import Name, Query

_MAX_PARENT_LEVELS = 5


def named_object(definitions: Mapping[str, ObjectDefinition], text: str, entity: Name) -> ObjectDefinition:
    """Return the object of that name, whatever the case of its letters. Raises QueryError INVALID_TYPE."""
    wanted = entity.text.lower()
    for name, definition in definitions.items():
        if name.lower() == wanted:
            return definition
    raise no_such_object(text, entity.position, entity.text)


@dataclass(frozen=True)
class FieldPaths:
    """The field paths of one query as SQL over the rows `r` of its object: a parent's field is a scalar subquery, null
    where there is no parent. `definitions` are the objects there are for the client.

    Raises QueryError: INVALID_FIELD for a field or a relationship that is none, MALFORMED_QUERY for a path too long.
    """

    query: Query
    definition: ObjectDefinition
    definitions: Mapping[str, ObjectDefinition]
    behind_formulas: Mapping[str, ObjectDefinition] = field(default_factory=dict)
    """The org's objects with all their fields: formulas read what the client may not; without them, `definitions`."""
    others: dict[str, ObjectDefinition] = field(default_factory=dict)
    """Further objects that the query reads, by name: parents on its paths, and objects of inner queries."""

    def column(self, name: Name) -> tuple[str, FieldDefinition]:
        """Return the SQL expression and definition of a field."""
        return self.expression(name, self.steps(name), self.definition)

    def steps(self, name: Name) -> tuple[str, ...]:
        """Return the relationships of a path and its field, without the object's own name or alias before them."""
        steps = tuple(name.text.split("."))
        own = {self.query.entity.text.lower(), self.definition.name.lower(), (self.query.alias or "").lower()}
        if len(steps) > 1 and steps[0].lower() in own:
            steps = steps[1:]
        if len(steps) > _MAX_PARENT_LEVELS + 1:
            raise self.refuse("MALFORMED_QUERY", name, f"a field path has at most {_MAX_PARENT_LEVELS} relationships")
        return steps

    def expression(
        self, name: Name, steps: tuple[str, ...], definition: ObjectDefinition, row: str = "r"
    ) -> tuple[str, FieldDefinition]:
        """Return the SQL expression and the definition for steps that begin at the rows `row` of an object; `name` is
        what a refusal points to."""
        if len(steps) == 1:
            known = definition.field(steps[0])
            if known is None:
                raise no_such_column(self.query.text, name.position, steps[0], definition.name)
            if known.is_formula:
                objects = self.behind_formulas or self.definitions
                return formula_sql(objects.get(definition.name, definition), known, objects, row), known
            if known.name == "Id" and not definition.access.own_ids:
                return f"'{EMPTY_ID}'", known
            value = f"{row}.{quoted(known.name)}"
            if known.readable_from:
                is_lost = f'{value} IS NOT NULL AND {row}."LastModifiedDate" < {known.readable_from}'
                value = f"CASE WHEN {is_lost} THEN '{MASK}' ELSE {value} END"
            return value, known
        reference, parent = self.relationship(name, steps[0], definition)
        self.others[parent.name] = parent
        inner, known = self.expression(name, steps[1:], parent, f"{row}p")
        found = (
            f'SELECT {inner} FROM {quoted(parent.name)} AS {row}p WHERE {row}p."Id" = {row}.{quoted(reference.name)}'
        )
        # A checkbox is never null, not even that of no parent.
        return f"COALESCE(({found}), 0)" if known.type == "boolean" else f"({found})", known

    def relationship(
        self, name: Name, step: str, definition: ObjectDefinition
    ) -> tuple[FieldDefinition, ObjectDefinition]:
        """Return the reference of that relationship name, and the object it leads to."""
        for reference in definition.fields:
            if (reference.relationship_name or "").lower() == step.lower() and len(reference.reference_to) == 1:
                parent = self.definitions.get(reference.reference_to[0])
                if parent is not None:
                    return reference, parent
        raise self.refuse(
            "INVALID_FIELD",
            name,
            f"Didn't understand relationship '{step}' in field path. If you are attempting to use a custom "
            "relationship, be sure to append the '__r' after the custom relationship name. Please reference your WSDL "
            "or the describe call for the appropriate names.",
        )

    def refuse(self, error_code: str, name: Name, reason: str) -> QueryError:
        """Return an error at a name of the query."""
        return refusal(error_code, self.query.text, name.position, reason)
