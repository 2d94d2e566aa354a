"""Random fields and conditions over them: the same for the same dice, with literals that records have, or nearly
have."""

from __future__ import annotations

import random
from typing import Any

from sfcdc_assets_tests.emulator.soql.literals import MULTI_SELECTS, literal, pattern
from sfcdc_assets_tests.emulator.soql.org_facts import JOINS, PARENTS, TYPES, Facts
from sfcdc_assets_tests.emulator.soql.queries import Chain, Condition, Join, Not, Operand, Part, Path, Test, Total

_PARTS = (
    "CALENDAR_YEAR", "CALENDAR_QUARTER", "CALENDAR_MONTH", "FISCAL_YEAR", "FISCAL_QUARTER", "FISCAL_MONTH",
    "DAY_IN_MONTH", "DAY_IN_WEEK", "DAY_IN_YEAR", "WEEK_IN_MONTH", "WEEK_IN_YEAR",
)  # fmt: skip
NUMBERS = frozenset({"int", "double", "currency", "percent"})
TEXTS = frozenset({"string", "textarea", "combobox", "email", "phone", "url", "picklist"})
_ORDERED = frozenset({"<", "<=", ">", ">="})


class ConditionGenerator:
    """Makes conditions over the objects of `org_facts`."""

    def __init__(self, dice: random.Random, facts: Facts) -> None:
        self._dice = dice
        self._facts = facts

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _where(self, entity: str, *, joins: bool = True) -> Condition:
        condition = self._condition(entity, 3, lambda: self._test(entity, self._operand(entity)))
        if not joins or not JOINS[entity] or self._dice.random() < 0.8:
            return condition
        found = tuple(self._join(entity) for _ in range(self._dice.randrange(1, 3)))
        if len(found) == 1 and self._dice.random() < 0.3:
            return found[0]
        return Chain("AND", (*found, condition))

    def _join(self, entity: str) -> Join:
        left, other, inner = self._dice.choice(JOINS[entity])
        where = self._where(other, joins=False) if self._dice.random() < 0.7 else None
        return Join(Path((left,)), self._dice.random() < 0.4, other, Path((inner,)), where)

    def _condition(self, entity: str, depth: int, test: Any) -> Condition:
        dice = self._dice
        kind = dice.random()
        if depth == 0 or kind < 0.45:
            found: Test = test()
            return found
        if kind < 0.6:
            return Not(self._condition(entity, depth - 1, test))
        inner = tuple(self._condition(entity, depth - 1, test) for _ in range(dice.randrange(2, 4)))
        return Chain(dice.choice(("AND", "OR")), inner)

    def _operand(self, entity: str) -> Path | Part:
        part = self._part(entity) if self._dice.random() < 0.1 else None
        return part or self._path(entity)[0]

    def _test(self, entity: str, operand: Operand) -> Test:
        dice = self._dice
        kind = self._kind(operand, entity)
        if kind == "multipicklist" and dice.random() < 0.7:
            operator = dice.choice(("INCLUDES", "EXCLUDES"))
            choices = dice.choices(MULTI_SELECTS, k=dice.randrange(1, 3))
            return Test(operand, operator, tuple(literal(dice, kind, choice, ordered=True) for choice in choices))
        if kind in TEXTS and dice.random() < 0.25:
            return Test(operand, "LIKE", (pattern(dice, self._some_value(operand, entity)),))
        several = dice.random() < 0.25
        operators = ["IN", "NOT IN"] if several else ["=", "=", "!=", "<>"]
        if not several and kind in (TEXTS - {"picklist"}) | NUMBERS | {"date", "datetime", "time"}:
            operators += sorted(_ORDERED)
        operator = dice.choice(operators)
        wanted = [
            literal(
                dice, kind, self._some_value(operand, entity), ordered=operator in _ORDERED,
                dates=not isinstance(operand, Part) and not several,
            )
            for _ in range(dice.randrange(1, 4) if several else 1)
        ]  # fmt: skip
        is_labelled = kind == "picklist" and isinstance(operand, Path) and dice.random() < 0.1
        return Test(operand, operator, tuple(wanted), is_labelled)

    def _some_value(self, operand: Operand, entity: str) -> Any:
        """A value the operand's field has in some record; for what is computed of it, a small number."""
        if isinstance(operand, Part) and operand.function != "DAY_ONLY":
            return self._dice.choice((1, 2, 5, 2024, 2025))
        if isinstance(operand, Total) and operand.function not in {"MIN", "MAX"}:
            return self._dice.choice((0, 1, 2, 5, 2.5))
        path = operand if isinstance(operand, Path) else operand.path
        for step in path.steps[:-1]:
            entity = PARENTS[entity][step][1]
        return self._dice.choice(self._facts.records[entity])[path.steps[-1]]

    # --- fields -------------------------------------------------------------------------------------------------------

    def _path(self, entity: str, but_for: set[str] = frozenset()) -> tuple[Path, str]:  # type: ignore[assignment]
        dice = self._dice
        steps: list[str] = []
        while len(steps) < 5 and dice.random() < 0.25:
            step = dice.choice(list(PARENTS[entity]))
            steps.append(step)
            entity = PARENTS[entity][step][1]
        names = [name for name, kind in TYPES[entity].items() if kind not in but_for]
        name = dice.choice(names)
        return Path((*steps, name)), TYPES[entity][name]

    def _part(self, entity: str) -> Part | None:
        for _ in range(20):
            path, kind = self._path(entity)
            if kind == "datetime":
                function = self._dice.choice((*_PARTS, "DAY_ONLY", "HOUR_IN_DAY"))
                return Part(function, path, self._dice.random() < 0.3)
            if kind == "date":
                return Part(self._dice.choice(_PARTS), path)
        return None

    def _kind(self, operand: Operand, entity: str) -> str:
        path = operand if isinstance(operand, Path) else operand.path
        for step in path.steps[:-1]:
            entity = PARENTS[entity][step][1]
        kind = TYPES[entity][path.steps[-1]]
        if isinstance(operand, Part):
            return "date" if operand.function == "DAY_ONLY" else "int"
        return "int" if isinstance(operand, Total) and operand.function.startswith("COUNT") else kind
