"""Queries that an object refuses though their fields are right: objects that cannot be queried, that need a filter by
their parents, that are only read along their index, or that no query may order. The words are Salesforce's own."""

from __future__ import annotations

from collections.abc import Iterator

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.soql.syntax import Chain, Comparison, Condition, Membership, Name, Query, tests_in

_BIG = "BIG_OBJECT_UNSUPPORTED_OPERATION"
_RANGES = frozenset({"<", ">", "<=", ">="})


def check_query(query: Query, definition: ObjectDefinition) -> None:
    """Raise QueryError for a query that the object does not answer."""
    access = definition.access
    if not access.queryable:
        message = f"entity type {definition.name} does not support query"
        raise QueryError("INVALID_TYPE_FOR_OPERATION", message)
    wanted = {name.lower() for name in access.needs_filter}
    if access.refusal is not None and not wanted & set(equalled(query, definition)):
        raise QueryError(access.refusal_code, access.refusal)
    for each in query.order_by:
        if isinstance(each.field, Name) and each.field.text in access.refuses_order_by:
            raise QueryError("INVALID_FIELD", f"field '{each.field.text}' can not be sorted in a query call")
    if access.index:
        _check_along_index(query, definition)


def equalled(query: Query, definition: ObjectDefinition) -> Iterator[str]:
    """Yield the fields, in lower case and without the object's own name, that must have one of some values for the
    query to give anything."""
    own = f"{definition.name.lower()}."
    for path in _equalled(query.where):
        yield path.removeprefix(own)


def _equalled(condition: Condition | None) -> Iterator[str]:
    if isinstance(condition, Chain) and condition.operator.upper() == "AND":
        for part in condition.conditions:
            yield from _equalled(part)
    elif isinstance(condition, Membership):
        if not condition.negated:
            yield condition.field.text.lower()
    elif isinstance(condition, Comparison) and condition.operator in {"=", "IN"} and isinstance(condition.field, Name):
        yield condition.field.text.lower()


def _check_along_index(query: Query, definition: ObjectDefinition) -> None:
    """Let a big object be filtered by the first fields of its index, without a gap, a range only by the last of them;
    ordered by that one alone, descending; and never counted (Big Objects Implementation Guide, "SOQL with Big
    Objects")."""
    if query.is_count or query.is_aggregate:
        raise QueryError(_BIG, "Aggregate functions not supported")
    index = [name.lower() for name in definition.access.index]
    tests = list(tests_in(query.where)) if query.where is not None else []
    used: dict[str, str] = {}
    for test in tests:
        name = test.field.text.lower() if isinstance(test.field, Name) else ""
        operator = test.operator if isinstance(test, Comparison) else ""
        if operator not in _RANGES | {"=", "IN"}:
            raise QueryError(_BIG, f"Unsupported operator on filter column: {name.upper()}")
        if name not in index:
            raise QueryError(_BIG, f"Filter column is not part of the index: {name.upper()}")
        used[name] = operator
    names = index[: len(used)]
    if set(names) != set(used) or any(used[name] in _RANGES for name in names[:-1]) or not _is_conjunction(query.where):
        raise QueryError(_BIG, "Filters must follow the order of the index fields, without gaps")
    for each in query.order_by:
        name = each.field.text.lower() if isinstance(each.field, Name) else ""
        if not each.descending:
            raise QueryError(_BIG, f"Unsupported order direction on filter column: {name.upper()} : ASCENDING")


def _is_conjunction(condition: Condition | None) -> bool:
    if isinstance(condition, Chain):
        return condition.operator.upper() == "AND" and all(_is_conjunction(each) for each in condition.conditions)
    return condition is None or isinstance(condition, Comparison)
