"""Queries answered from records as dicts, by SOQL's documented semantics: https://developer.salesforce.com/docs/
atlas.en-us.soql_sosl.meta/soql_sosl/. Made to be obviously right, not fast; knows nothing of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sfcdc_assets_tests.emulator.soql.org_facts import CHILDREN, PARENTS, SCALES, TYPES, WHATS, Facts, Record
from sfcdc_assets_tests.emulator.soql.queries import (
    Chain,
    Condition,
    Item,
    Join,
    Not,
    Operand,
    Order,
    Part,
    Path,
    Query,
    Total,
)
from sfcdc_assets_tests.emulator.soql.values import compares, equals, folded, localized, part, rest, sort_key

Group = Sequence[Record]


class Evaluation:
    """Answers over one org's records; `include_deleted` is queryAll."""

    def __init__(self, facts: Facts, *, include_deleted: bool = False) -> None:
        self.facts = facts
        self.include_deleted = include_deleted

    def answer(self, query: Query) -> list[Record] | int:
        """The records of the answer without attributes, or the count."""
        if query.all_rows and not self.include_deleted:  # inner queries see deleted records, too
            return Evaluation(self.facts, include_deleted=True).answer(query)
        rows = [
            row
            for row in self._rows(query.entity)
            if query.where is None or self._holds(query.where, query.entity, [row])
        ]
        if query.is_count:
            return min(len(rows), len(rows) if query.limit is None else query.limit)
        if query.is_aggregate:
            return self._groups(query, rows)
        rows = self._page(query, [[row] for row in rows])
        return [self._record(query, row) for (row,) in rows]

    def _rows(self, entity: str) -> Iterable[Record]:
        return (row for row in self.facts.records[entity] if self.include_deleted or not row["IsDeleted"])

    def _found(self, query: Query, rows: Iterable[Record]) -> list[Record]:
        return [row for row in rows if query.where is None or self._holds(query.where, query.entity, [row])]

    def _page(self, query: Query, groups: list[Group]) -> list[Group]:
        for order in reversed(query.order_by):
            groups = self._sorted(order, query.entity, groups)
        end = None if query.limit is None else query.offset + query.limit
        return groups[query.offset : end]

    def _sorted(self, order: Order, entity: str, groups: list[Group]) -> list[Group]:
        kind, name = self.kind(order.operand, entity)
        keyed = [(self.value(order.operand, entity, group), group) for group in groups]
        nulls = [group for value, group in keyed if value is None]
        known = [(sort_key(kind, name, value), group) for value, group in keyed if value is not None]
        known.sort(key=lambda pair: pair[0], reverse=order.direction.upper() == "DESC")
        rest = [group for _, group in known]
        return rest + nulls if order.nulls.upper() == "NULLS LAST" else nulls + rest

    # --- what is selected ---------------------------------------------------------------------------------------------

    def _record(self, query: Query, row: Record) -> Record:
        record: Record = {}
        for item in query.items:
            place, owner = record, row
            path = item.operand
            assert isinstance(path, Path)
            entity = query.entity
            for step in path.steps[:-1]:
                reference, entity = PARENTS[entity][step]
                parent = self.facts.by_id.get(str(owner[reference]))
                if parent is None:
                    place[step] = None
                    break
                place, owner = place.setdefault(step, {}), parent
            else:
                place[item.alias or path.steps[-1]] = self._shown(item, query.entity, [row])
        if query.typeof is not None:
            record[query.typeof.relationship] = self._typeof(query, row)
        for child in query.children:
            record[str(child.relationship)] = self._children(query, child, row)
        return record

    def _typeof(self, query: Query, row: Record) -> Record | None:
        assert query.typeof is not None
        parent = self.facts.by_id.get(str(row["WhatId"]))
        if parent is None:
            return None
        entity = WHATS[str(parent["Id"])[:3]]
        names = query.typeof.fields.get(entity) or query.typeof.fields.get(None)
        return names and {name: rest(TYPES[entity][name], parent[name]) for name in names}

    def _children(self, query: Query, child: Query, row: Record) -> list[Record] | None:
        entity, reference = CHILDREN[query.entity][str(child.relationship)]
        mine = self._found(child, (each for each in self._rows(entity) if each[reference] == row["Id"]))
        return [self._record(child, each) for (each,) in self._page(child, [[each] for each in mine])] or None

    def _groups(self, query: Query, rows: list[Record]) -> list[Record]:
        groups: dict[tuple[Any, ...], list[Record]] = {} if query.group_by else {(): []}
        for row in rows:
            key = tuple(folded(self.value(operand, query.entity, [row])) for operand in query.group_by)
            groups.setdefault(key, []).append(row)
        kept = [
            each for each in groups.values() if query.having is None or self._holds(query.having, query.entity, each)
        ]
        return [self._group(query, group) for group in self._page(query, [*kept])]

    def _group(self, query: Query, group: Group) -> Record:
        record: Record = {}
        unnamed = 0
        for item in query.items:
            name = item.alias or (item.operand.steps[-1] if isinstance(item.operand, Path) else f"expr{unnamed}")
            unnamed += name == f"expr{unnamed}" and item.alias is None
            record[name] = self._shown(item, query.entity, group)
        return record

    def _shown(self, item: Item, entity: str, group: Group) -> Any:
        kind, name = self.kind(item.operand, entity)
        value = self.value(item.operand, entity, group)
        return localized(kind, SCALES.get(name, 0), value) if item.wrapped == "FORMAT" else rest(kind, value)

    # --- values -------------------------------------------------------------------------------------------------------

    def kind(self, operand: Operand, entity: str) -> tuple[str, str]:
        """The type of an operand's values, and the field's name."""
        if isinstance(operand, Path):
            for step in operand.steps[:-1]:
                entity = PARENTS[entity][step][1]
            return TYPES[entity][operand.steps[-1]], operand.steps[-1]
        kind, name = self.kind(operand.path, entity)
        if isinstance(operand, Part):
            return ("date" if operand.function == "DAY_ONLY" else "int"), name
        return (kind if operand.function in {"MIN", "MAX", "SUM", "AVG"} else "int"), name

    def value(self, operand: Operand, entity: str, group: Group) -> Any:
        """The value of an operand: aggregates are of a group, all else is the same for the group's records."""
        if isinstance(operand, Total):
            return self._total(operand, entity, group)
        if isinstance(operand, Part):
            found = self.value(operand.path, entity, group)
            return None if found is None else part(operand.function, found)
        row: Record | None = group[0]
        for step in operand.steps[:-1]:
            reference, entity = PARENTS[entity][step]
            row = self.facts.by_id.get(str(row[reference])) if row else None
        kind = TYPES[entity][operand.steps[-1]]
        value = row[operand.steps[-1]] if row else None
        return bool(value) if kind == "boolean" else value

    def _total(self, total: Total, entity: str, group: Group) -> Any:
        kind, name = self.kind(total.path, entity)
        values = [value for row in group if (value := self.value(total.path, entity, [row])) is not None]
        match total.function:
            case "COUNT":
                return len(values)
            case "COUNT_DISTINCT":
                return len({folded(value) for value in values})
            case "SUM":
                return sum(values) if values else None
            case "AVG":
                return sum(values) / len(values) if values else None
        choose: Callable[..., Any] = min if total.function == "MIN" else max
        return choose(values, key=lambda value: sort_key(kind, name, value)) if values else None

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _holds(self, condition: Condition, entity: str, group: Group) -> bool:
        if isinstance(condition, Not):
            return not self._holds(condition.condition, entity, group)
        if isinstance(condition, Chain):
            combine = all if condition.word == "AND" else any
            return combine(self._holds(each, entity, group) for each in condition.conditions)
        if isinstance(condition, Join):
            return self._joined(condition, entity, group)
        value = self.value(condition.operand, entity, group)
        literals = condition.literals
        match condition.operator:
            case "=" | "IN":
                return any(equals(value, literal) for literal in literals)
            case "!=" | "<>" | "NOT IN":
                return not any(equals(value, literal) for literal in literals)
            case "LIKE":
                return value is not None and bool(re.fullmatch(literals[0].value, value.lower(), re.DOTALL))
            case "INCLUDES" | "EXCLUDES":
                held = set((value or "").lower().split(";"))
                found = any(set(literal.value.lower().split(";")) <= held for literal in literals)
                return found == (condition.operator == "INCLUDES")
        return value is not None and compares(value, condition.operator, literals[0])

    def _joined(self, join: Join, entity: str, group: Group) -> bool:
        rows = self._rows(join.entity)
        found = {
            self.value(join.inner, join.entity, [row])
            for row in rows
            if join.where is None or self._holds(join.where, join.entity, [row])
        }
        value = self.value(join.path, entity, group)
        return (value is not None and value in found) != join.negated
