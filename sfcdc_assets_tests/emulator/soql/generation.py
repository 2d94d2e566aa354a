"""Random well-formed queries: the same for the same dice, with literals that records have, or nearly have."""

from __future__ import annotations

from sfcdc_assets_tests.emulator.soql.conditions import NUMBERS, TEXTS, ConditionGenerator
from sfcdc_assets_tests.emulator.soql.org_facts import CHILDREN
from sfcdc_assets_tests.emulator.soql.queries import (
    Condition,
    Item,
    Operand,
    Order,
    Part,
    Path,
    Query,
    Test,
    Total,
    TypeOf,
)

_ENTITIES = ("Account",) * 5 + ("Contact",) * 3 + ("Opportunity",) * 2 + ("Task", "User")
_GROUPED = TEXTS | {"int", "date", "boolean", "id", "reference"}
_TOTALLED = TEXTS | NUMBERS | {"date", "datetime", "id", "reference"}


class Generator(ConditionGenerator):
    """Makes queries over the objects of `org_facts`."""

    def query(self) -> Query:
        dice = self._dice
        entity = dice.choice(_ENTITIES)
        where = self._where(entity) if dice.random() < 0.85 else None
        # Users are never deleted, and have no field that says so.
        all_rows = entity != "User" and dice.random() < 0.1
        kind = dice.random()
        if kind < 0.05:
            limit = dice.choice((None, None, 3))
            return Query(entity, (), where, limit=limit, all_rows=all_rows, is_count=True)
        if kind < 0.35:
            return self._groups(entity, where, all_rows=all_rows)
        items = self._items(entity)
        order_by, is_total, limit, offset = self._order(entity)
        typeof = self._typeof() if entity == "Task" and dice.random() < 0.5 else None
        return Query(
            entity, items, where, order_by=order_by, is_total=is_total, limit=limit, offset=offset, all_rows=all_rows,
            children=self._children(entity), typeof=typeof,
        )  # fmt: skip

    # --- records ------------------------------------------------------------------------------------------------------

    def _items(self, entity: str) -> tuple[Item, ...]:
        items: dict[tuple[str, ...], Item] = {}
        for number in range(self._dice.randrange(1, 6)):
            path, kind = self._path(entity)
            wrapped = None
            if kind == "picklist" and self._dice.random() < 0.3:
                wrapped = "toLabel"
            elif kind in NUMBERS | {"date", "datetime", "time"} and self._dice.random() < 0.3:
                wrapped = "FORMAT"
            alias = f"shown{number}" if wrapped and self._dice.random() < 0.5 else None
            items.setdefault((*path.steps[:-1], alias or path.steps[-1]), Item(path, alias, wrapped))
        return tuple(items.values())

    def _order(self, entity: str) -> tuple[tuple[Order, ...], bool, int | None, int]:
        dice = self._dice
        if dice.random() < 0.4:
            return (), False, None, 0
        operands = [self._path(entity, but_for={"multipicklist"})[0] for _ in range(dice.randrange(3))]
        order_by = tuple(map(self._ordered, [*operands, Path(("Id",))]))
        limit = dice.choice((None, None, 0, 1, 5, 200))
        return order_by, True, limit, dice.choice((0, 0, 0, 2, 2000))

    def _ordered(self, operand: Operand) -> Order:
        nulls = self._dice.choice(("", "", "NULLS FIRST", "NULLS LAST", "nulls last"))
        return Order(operand, self._dice.choice(("", "", "ASC", "DESC", "desc")), nulls)

    def _typeof(self) -> TypeOf:
        fields: dict[str | None, tuple[str, ...]] = {}
        for entity, names in (("Account", ("Id", "Name", "Rating")), ("Opportunity", ("Name", "Amount", "CloseDate"))):
            if self._dice.random() < 0.6:
                fields[entity] = tuple(self._dice.sample(names, self._dice.randrange(1, 4)))
        if not fields or self._dice.random() < 0.4:
            fields = fields or {"Account": ("Phone",)}
            fields[None] = ("Id", "Name")
        return TypeOf("What", fields)

    def _children(self, entity: str) -> tuple[Query, ...]:
        relationships = CHILDREN.get(entity, {})
        if not relationships or self._dice.random() < 0.8:
            return ()
        name = self._dice.choice(list(relationships))
        child = relationships[name][0]
        where = self._where(child) if self._dice.random() < 0.5 else None
        order_by, is_total, limit, _ = self._order(child)
        return (
            Query(
                child, self._items(child), where, order_by=order_by, is_total=is_total, limit=limit, relationship=name
            ),
        )

    # --- groups -------------------------------------------------------------------------------------------------------

    def _groups(self, entity: str, where: Condition | None, *, all_rows: bool) -> Query:
        dice = self._dice
        group_by = dict.fromkeys(self._grouping(entity) for _ in range(dice.randrange(3)))
        groups = list(group_by)
        items = [Item(each, self._alias(number)) for number, each in enumerate(groups) if dice.random() < 0.8]
        totals = [self._total(entity) for _ in range(dice.randrange(0 if items else 1, 4))]
        for number, total in enumerate(dict.fromkeys(totals), len(items)):
            kind = self._kind(total.path, entity)
            wrapped = "FORMAT" if kind in NUMBERS | {"date", "datetime"} and dice.random() < 0.2 else None
            items.append(Item(total, self._alias(number), wrapped))
        named: dict[str, Item] = {}
        for item in items:
            known = item.alias or (item.operand.steps[-1] if isinstance(item.operand, Path) else repr(item.operand))
            named.setdefault(known.lower(), item)
        having = self._condition(entity, 1, lambda: self._having(entity, groups)) if groups else None
        orders = [*groups, *([self._total(entity)] if dice.random() < 0.5 else [])]
        dice.shuffle(orders)
        is_total = bool(groups) and dice.random() < 0.6
        return Query(
            entity,
            tuple(named.values()),
            where,
            group_by=tuple(groups),
            having=having if dice.random() < 0.5 else None,
            order_by=tuple(map(self._ordered, orders)) if is_total else (),
            is_total=is_total,
            limit=dice.choice((None, 1, 4)) if is_total else None,
            all_rows=all_rows,
        )

    def _alias(self, number: int) -> str | None:
        return f"a{number}" if self._dice.random() < 0.4 else None

    def _grouping(self, entity: str) -> Path | Part:
        while True:
            operand = self._part(entity) if self._dice.random() < 0.3 else None
            if operand is not None:
                return operand
            path, kind = self._path(entity)
            if kind in _GROUPED:
                return path

    def _total(self, entity: str) -> Total:
        while True:
            path, kind = self._path(entity)
            if kind in NUMBERS and self._dice.random() < 0.5:
                return Total(self._dice.choice(("SUM", "AVG")), path)
            if kind in _TOTALLED:
                return Total(self._dice.choice(("COUNT", "COUNT_DISTINCT", "MIN", "MAX")), path)

    def _having(self, entity: str, groups: list[Path | Part]) -> Test:
        if self._dice.random() < 0.4:
            return self._test(entity, self._dice.choice(groups))
        return self._test(entity, self._total(entity))
