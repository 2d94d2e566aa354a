"""A query as SOQL text, in one of the many ways it can be written."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from sfcdc_assets_tests.emulator.soql.queries import Chain, Condition, Item, Join, Not, Operand, Path, Query, Test


@dataclass
class Writer:
    """Writes queries with random case, space, parentheses and aliases where SOQL does not mind."""

    dice: random.Random
    alias: str | None = field(default=None, init=False)

    def query(self, query: Query) -> str:
        outer, self.alias = self.alias, None
        if query.relationship is None and self.dice.random() < 0.2:
            self.alias = "q"
        source = query.relationship or self._case(query.entity)
        parts = [self._word("SELECT"), ", ".join(self._items(query)), self._word("FROM"), source]
        if self.alias:
            parts.append(self.alias)
        if query.where is not None:
            parts += [self._word("WHERE"), self.condition(query.where)]
        if query.group_by:
            parts += [self._word("GROUP BY"), ", ".join(map(self._operand, query.group_by))]
        if query.having is not None:
            parts += [self._word("HAVING"), self.condition(query.having)]
        if query.order_by:
            orders = (f"{self._operand(each.operand)} {each.direction} {each.nulls}" for each in query.order_by)
            parts += [self._word("ORDER BY"), ", ".join(" ".join(order.split()) for order in orders)]
        parts += [self._word("LIMIT"), str(query.limit)] if query.limit is not None else []
        parts += [self._word("OFFSET"), str(query.offset)] if query.offset else []
        parts += [self._word("ALL ROWS")] if query.all_rows else []
        self.alias = outer
        return self.dice.choice((" ", " ", "\n", "  ")).join(parts)

    def condition(self, condition: Condition) -> str:
        if isinstance(condition, Chain):
            word = f" {self._word(condition.word)} "
            return word.join(self._simple(each) for each in condition.conditions)
        if isinstance(condition, Not):
            return f"{self._word('NOT')} {self._simple(condition.condition)}"
        if isinstance(condition, Join):
            inner = Query(condition.entity, (Item(condition.inner),), condition.where)
            word = self._word("NOT IN" if condition.negated else "IN")
            return f"{self._operand(condition.path)} {word} ({self.query(inner)})"
        operand = self._operand(condition.operand)
        if condition.is_labelled:
            operand = f"toLabel({operand})"
        literals = ", ".join(literal.text for literal in condition.literals)
        if condition.operator in {"IN", "NOT IN", "INCLUDES", "EXCLUDES"}:
            return f"{operand} {self._word(condition.operator)} ({literals})"
        space = " " if condition.operator == "LIKE" or self.dice.random() < 0.9 else ""
        return f"{operand}{space}{condition.operator}{space}{literals}"

    def _simple(self, condition: Condition) -> str:
        text = self.condition(condition)
        # What is in parentheses is nested, where SOQL has no semi-joins.
        if isinstance(condition, Join) or (isinstance(condition, Test) and self.dice.random() < 0.9):
            return text
        return f"({text})"

    def _items(self, query: Query) -> list[str]:
        if query.is_count:
            return ["COUNT()"]
        texts = []
        for item in query.items:
            text = self._operand(item.operand)
            text = f"{item.wrapped}({text})" if item.wrapped else text
            texts.append(f"{text} {item.alias}" if item.alias else text)
        if query.typeof is not None:
            branches = (
                f"{f'WHEN {entity} THEN' if entity else 'ELSE'} {', '.join(names)}"
                for entity, names in query.typeof.fields.items()
            )
            texts.append(f"TYPEOF {query.typeof.relationship} {' '.join(branches)} END")
        return texts + [f"({self.query(child)})" for child in query.children]

    def _operand(self, operand: Operand) -> str:
        text = self._case(operand.text)
        if self.alias and isinstance(operand, Path) and self.dice.random() < 0.7:
            return f"{self.alias}.{text}"
        return text

    def _word(self, word: str) -> str:
        return self.dice.choice((word, word, word.lower(), word.title()))

    def _case(self, name: str) -> str:
        return self.dice.choice((name, name, name, name.lower(), name.upper()))
