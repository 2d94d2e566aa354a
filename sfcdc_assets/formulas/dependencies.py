"""What a formula field is computed from: fields of its record, fields of parents, the time, or what nobody can follow.

Formulas that a formula names are followed to what they are computed from. A roll-up summary is a field like others, as
change events carry it. What the description of an object does not show, a global variable (`$User`), a function that is
not known to depend on its arguments alone, and a text that cannot be read are reasons for which the value may change
unseen: such a formula depends on anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from sfcdc_assets.formulas.formula_text import read_formula
from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription

Describe = Callable[[str], ObjectDescription | None]
"""An object's API name to its description; None where there is none."""
MOST_NESTED = 30
"""So many formulas one behind the other; Salesforce's limit of a formula's compiled size comes earlier."""
OF_TIME = frozenset({"now", "today", "timenow"})
OF_ARGUMENTS = frozenset(
    {
        "abs", "acos", "addmonths", "and", "ascii", "asin", "atan", "atan2", "begins", "blankvalue", "br", "case",
        "casesafeid", "ceiling", "chr", "contains", "cos", "date", "datetimevalue", "datevalue", "day", "dayofyear",
        "distance", "exp", "find", "floor", "formatduration", "fromunixtime", "geolocation", "hour", "hyperlink", "if",
        "image", "includes", "initcap", "isblank", "isnull", "isnumber", "isoweek", "isoyear", "ispickval", "left",
        "len", "ln", "log", "lower", "lpad", "max", "mceiling", "mfloor", "mid", "millisecond", "min", "minute", "mod",
        "month", "not", "nullvalue", "or", "pi", "picklistcount", "regex", "reverse", "right", "round", "rpad",
        "second", "sin", "sqrt", "substitute", "tan", "text", "timevalue", "trim", "trunc", "unixtimestamp", "upper",
        "urlencode", "value", "weekday", "year",
    }
)  # fmt: skip
"""Functions of formula fields whose result is another one only if an argument is
(https://help.salesforce.com/s/articleView?id=sf.customize_functions.htm)."""


@dataclass(frozen=True, order=True)
class Lookup:
    """A reference field, and the object that it leads to, or one of several."""

    field: str
    entity: str


@dataclass(frozen=True)
class ParentFields:
    """Fields of one parent: the lookups that lead to it, the record's own first, and what is read of it."""

    path: tuple[Lookup, ...]
    fields: frozenset[str]

    @property
    def entity(self) -> str:
        """The object of the parent."""
        return self.path[-1].entity


@dataclass(frozen=True)
class FormulaDependencies:
    """Of one formula, or of all of an object, under API names."""

    own: frozenset[str] = frozenset()
    """Fields of the record, lookups that lead to parents too."""
    parents: tuple[ParentFields, ...] = ()
    """Each path once, shorter ones first."""
    names_time: bool = False
    """The value changes from one day, or one second, to the next."""
    unseen: frozenset[str] = field(default_factory=frozenset)
    """Why the value may change without a change of these; empty for most."""

    def together(self, others: Iterable[FormulaDependencies]) -> FormulaDependencies:
        """Return what this formula or one of the others is computed from."""
        every = (self, *others)
        return FormulaDependencies(
            frozenset().union(*(each.own for each in every)),
            _merged(parent for each in every for parent in each.parents),
            any(each.names_time for each in every),
            frozenset().union(*(each.unseen for each in every)),
        )

    def reads(self, entity: str) -> frozenset[tuple[str, str]]:
        """Return every object and field that is read for a record of `entity`: whoever withholds one of them has to
        withhold the value."""
        own = {(entity, name) for name in self.own}
        return frozenset(own.union((each.entity, name) for each in self.parents for name in each.fields))


def formula_fields(description: ObjectDescription) -> tuple[FieldDescription, ...]:
    """Return the fields of an object that are formulas: of what is calculated, all that has a text."""
    return tuple(each for each in description.fields if each.calculated and each.calculated_formula is not None)


def dependencies_of_all(description: ObjectDescription, describe: Describe) -> dict[str, FormulaDependencies]:
    """Return what each formula field of an object is computed from, by its name."""
    return {each.name: _of_field(description, each, describe, ()) for each in formula_fields(description)}


def _of_field(
    description: ObjectDescription, formula: FieldDescription, describe: Describe, within: tuple[str, ...]
) -> FormulaDependencies:
    here = f"{description.name}.{formula.name}"
    if here in within or len(within) >= MOST_NESTED:
        return FormulaDependencies(unseen=frozenset({f"{here} is computed from itself, or over too many formulas"}))
    named = read_formula(formula.calculated_formula or "")
    if named is None:
        return FormulaDependencies(unseen=frozenset({f"the formula of {here} cannot be read"}))
    unseen = {f"{here} names {variable}" for variable in named.variables}
    unseen |= {f"{here} names {each.upper()}()" for each in named.functions - OF_TIME - OF_ARGUMENTS}
    found = FormulaDependencies(names_time=bool(named.functions & OF_TIME), unseen=frozenset(unseen))
    references = (_of_reference(description, path, describe, (*within, here)) for path in sorted(named.fields))
    return found.together(references)


def _of_reference(
    description: ObjectDescription, path: str, describe: Describe, within: tuple[str, ...]
) -> FormulaDependencies:
    step, _, rest = path.partition(".")
    if not rest:
        return _of_own_field(description, step, describe, within)
    found = list(_parents(description, step))
    if not found:
        reason = f"{within[-1]} names {path}, and {description.name} is not described with {step}"
        return FormulaDependencies(unseen=frozenset({reason}))
    every = FormulaDependencies()
    for lookup, entity in found:
        parent = describe(entity)
        if parent is None:
            reason = f"{within[-1]} names {path}, and {entity} is not described"
            of_parent = FormulaDependencies(frozenset({lookup.name}), unseen=frozenset({reason}))
        else:
            of_parent = _over(lookup, entity, _of_reference(parent, rest, describe, within))
        every = every.together([of_parent])
    return every


def _of_own_field(
    description: ObjectDescription, name: str, describe: Describe, within: tuple[str, ...]
) -> FormulaDependencies:
    found = next((each for each in description.fields if each.name.lower() == name), None)
    if found is None:
        reason = f"{within[-1]} names {name}, and {description.name} is not described with it"
        return FormulaDependencies(unseen=frozenset({reason}))
    if found.calculated and found.calculated_formula is not None:
        return _of_field(description, found, describe, within)
    parts = description.parts_of(found.name)
    return FormulaDependencies(own=frozenset({found.name, *(part.name for part in parts)}))


def _parents(description: ObjectDescription, step: str) -> Iterator[tuple[FieldDescription, str]]:
    """Yield the lookup of a relationship with each object that it may lead to: `owner`, or `owner:user` for one."""
    relationship, _, target = step.partition(":")
    for each in description.fields:
        if (each.relationship_name or "").lower() != relationship:
            continue
        for entity in each.reference_to:
            if not target or entity.lower() == target:
                yield each, entity


def _over(lookup: FieldDescription, entity: str, found: FormulaDependencies) -> FormulaDependencies:
    """Return what is read of a parent as the record that refers to it sees it."""
    step = Lookup(lookup.name, entity)
    nearest = [ParentFields((step,), found.own)] if found.own else []
    further = [ParentFields((step, *each.path), each.fields) for each in found.parents]
    return FormulaDependencies(frozenset({lookup.name}), _merged([*nearest, *further]), found.names_time, found.unseen)


def _merged(parents: Iterable[ParentFields]) -> tuple[ParentFields, ...]:
    fields: dict[tuple[Lookup, ...], frozenset[str]] = {}
    for each in parents:
        fields[each.path] = fields.get(each.path, frozenset()) | each.fields
    ordered = sorted(fields.items(), key=lambda item: (len(item[0]), item[0]))
    return tuple(ParentFields(path, names) for path, names in ordered)
