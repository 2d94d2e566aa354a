"""Formula fields of an org's objects: which fields they read, and their values as SQL over the rows of an object.

A reference is a field of the record, or one of a parent's: `Account.Owner.Name` over at most ten relationships, with
the object behind a colon where a relationship leads to several: `Owner:User.Email` (https://help.salesforce.com/s/
articleView?id=sf.tips_on_building_formulas.htm). Formulas see every field and record, whoever reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.formulas.evaluation import FieldFormula, check_functions, names_the_time
from sfcdc_assets.emulator.formulas.parser import FormulaSyntaxError, parse_formula
from sfcdc_assets.emulator.formulas.syntax import references_of
from sfcdc_assets.emulator.org.database import quoted

_MAX_RELATIONSHIPS = 10
_MAX_REFERENCES = 100
"""SQLite takes 127 arguments of a function."""
_MAX_DEPTH = 10
"""So many formulas that name one another."""
Objects = Mapping[str, ObjectDefinition]


@dataclass(frozen=True)
class ResolvedReference:
    """What a reference of a formula stands for: the references (lookups) on the way, each with the object it leads to,
    and the field at the end with its object."""

    key: str
    steps: tuple[tuple[FieldDefinition, ObjectDefinition], ...]
    definition: ObjectDefinition
    field: FieldDefinition


def resolved(definition: ObjectDefinition, text: str, objects: Objects) -> tuple[ResolvedReference, ...]:
    """Return what the references of a formula of an object stand for. Raises FormulaSyntaxError for a formula that the
    org does not take."""
    root = parse_formula(text)
    check_functions(root)
    references = references_of(root)
    if len(references) > _MAX_REFERENCES:
        raise FormulaSyntaxError(f"a formula names at most {_MAX_REFERENCES} fields")
    return tuple(_resolved(reference.path, definition, objects) for reference in references)


def _resolved(path: str, definition: ObjectDefinition, objects: Objects) -> ResolvedReference:
    *relationships, last = path.split(".")
    if len(relationships) > _MAX_RELATIONSHIPS:
        raise FormulaSyntaxError(f"{path} spans more than {_MAX_RELATIONSHIPS} relationships")
    steps: list[tuple[FieldDefinition, ObjectDefinition]] = []
    here = definition
    for name in relationships:
        step = _step(name, here, objects)
        if step is None:
            raise FormulaSyntaxError(f"Field {path} does not exist. Check spelling.")
        steps.append(step)
        here = step[1]
    field = here.field(last)
    if field is None:
        raise FormulaSyntaxError(f"Field {path} does not exist. Check spelling.")
    if field.type in {"address", "location"}:
        raise FormulaSyntaxError(f"Field {path} may not be used in this type of formula")
    return ResolvedReference(path.lower(), tuple(steps), here, field)


def _step(name: str, definition: ObjectDefinition, objects: Objects) -> tuple[FieldDefinition, ObjectDefinition] | None:
    relationship, _, target = name.lower().partition(":")
    for field in definition.fields:
        if (field.relationship_name or "").lower() != relationship:
            continue
        targets = [each for each in field.reference_to if not target or each.lower() == target]
        if len(targets) == 1 and targets[0] in objects:
            return field, objects[targets[0]]
    return None


def check_formula(definition: ObjectDefinition, field: FieldDefinition, objects: Objects) -> None:
    """Raise FormulaSyntaxError for a formula that the org does not take, or that is computed from itself."""
    for _ in fields_read(definition, field, objects):
        pass


def fields_read(
    definition: ObjectDefinition, field: FieldDefinition, objects: Objects, within: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each object and field that a formula is computed from, by way of other formulas too. Raises
    FormulaSyntaxError."""
    here = f"{definition.name}.{field.name}"
    if here in within or len(within) >= _MAX_DEPTH:
        raise FormulaSyntaxError(f"{here} is computed from itself, or from too many formulas that name one another")
    for reference in resolved(definition, field.calculated_formula or "", objects):
        owner = definition
        for step, parent in reference.steps:
            yield owner.name, step.name
            owner = parent
        yield owner.name, reference.field.name
        if reference.field.is_formula:
            yield from fields_read(owner, reference.field, objects, (*within, here))


def formula_sql(
    definition: ObjectDefinition, field: FieldDefinition, objects: Objects, row: str = "r", depth: int = 0
) -> str:
    """Return the value of a formula of the rows `row` of an object, as an SQL expression without parameters; a formula
    that the org's objects no longer fit has none."""
    text = field.calculated_formula or ""
    none = "0" if field.type == "boolean" else "NULL"
    try:
        references = resolved(definition, text, objects)
        is_of_now = names_the_time(parse_formula(text))
    except FormulaSyntaxError:
        return none
    if depth >= _MAX_DEPTH:
        return none
    formula = FieldFormula(
        text,
        field.type,
        field.scale,
        field.blank_is_zero,
        tuple((reference.key, reference.field.type) for reference in references),
    )
    values = [_value_sql(reference, objects, row, depth) for reference in references]
    document = formula.to_json().replace("'", "''")
    arguments = [f"'{document}'", "sf_now()" if is_of_now else "NULL", *values]
    return f"sf_formula({', '.join(arguments)})"


def _value_sql(reference: ResolvedReference, objects: Objects, row: str, depth: int) -> str:
    last = row + "p" * len(reference.steps)
    if reference.field.is_formula:
        value = formula_sql(reference.definition, reference.field, objects, last, depth + 1)
    else:
        value = f"{last}.{quoted(reference.field.name)}"
    for number, (step, parent) in reversed(list(enumerate(reference.steps))):
        child = row + "p" * number
        value = (
            f'(SELECT {value} FROM {quoted(parent.name)} AS {child}p WHERE {child}p."Id" = {child}.{quoted(step.name)})'
        )
    return value
