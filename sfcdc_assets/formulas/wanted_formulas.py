"""Which formula fields of an object are read: those that the settings name and that show nothing withheld."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.privacy import FieldPattern, Privacy
from sfcdc_assets.formulas.dependencies import Describe, FormulaDependencies, dependencies_of_all, formula_fields
from sfcdc_assets.formulas.formula_columns import fingerprint, formula_columns, formulas_withheld
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.setting_types import EVERY_FORMULA


@dataclass(frozen=True)
class RefusedFormula:
    """A formula, by its text, that the org would not compute at a time (epoch ms, by our clock), and its words."""

    formula: str | None
    why: str
    at_ms: int


NONE_REFUSED: Mapping[str, RefusedFormula] = MappingProxyType({})


@dataclass(frozen=True)
class WantedFormulas:
    """`columns`: `Id` and the formulas that are read. `computed_from`: what all of these are. `fingerprint`: another
    number when one of them is another formula, or others are read. `withheld`: formulas that would be read if they
    showed nothing that SFCDC_EXCLUDE or SFCDC_HASH withholds, or were not `refused` by the org, each with why.
    `by_name`: what each one is computed from."""

    columns: tuple[Column, ...]
    computed_from: FormulaDependencies
    fingerprint: int
    withheld: Mapping[str, str]
    by_name: Mapping[str, FormulaDependencies]
    refused: Mapping[str, RefusedFormula] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The formulas that are read."""
        return tuple(column.name for column in self.columns[1:])

    @property
    def objects(self) -> frozenset[str]:
        """The parents whose changes are felt."""
        return frozenset(step.entity for each in self.computed_from.parents for step in each.path)


def wanted_formulas(
    description: ObjectDescription,
    describe: Describe,
    patterns: Sequence[str],
    privacy: Privacy,
    refused: Mapping[str, RefusedFormula] = NONE_REFUSED,
) -> WantedFormulas:
    """Return which formulas of an object are read; none where no pattern names one. `refused`: those that the org did
    not compute, which counts as long as their text is the same."""
    named = {each.name for each in formula_fields(description) if _names(patterns, description.name, each.name)}
    withheld: Mapping[str, str] = {}
    if named and (privacy.excluded or privacy.hashed):
        found = formulas_withheld(description, describe, _withheld_by(privacy, describe))
        withheld = {name: why for name, why in found.items() if name in named}
    texts = {each.name: each.calculated_formula for each in description.fields if each.name in named}
    still = {name: each for name, each in refused.items() if name in named and texts[name] == each.formula}
    withheld = {**{name: f"the org refuses it ({each.why})" for name, each in still.items()}, **withheld}
    read = named - withheld.keys()
    every = dependencies_of_all(description, describe) if read else {}
    rest = replace(description, fields=tuple(each for each in description.fields if each.name in read))
    by_name = {name: every[name] for name in sorted(read)}
    together = FormulaDependencies().together(by_name.values())
    return WantedFormulas(formula_columns(rest), together, fingerprint(rest), withheld, by_name, still)


def _names(patterns: Iterable[str], entity: str, field: str) -> bool:
    return any(each == EVERY_FORMULA or FieldPattern.read(each).covers(entity, [field]) for each in patterns)


def _withheld_by(privacy: Privacy, describe: Describe) -> Callable[[str, str], bool]:
    """Return whether a field is left out or hashed, by its own name or as a part of another."""

    def is_withheld(entity: str, field: str) -> bool:
        described = describe(entity)
        fields = described.fields if described else ()
        wholes = [each.compound_field_name for each in fields if each.name == field and each.compound_field_name]
        return privacy.withholds(entity, [field, *wholes])

    return is_withheld
