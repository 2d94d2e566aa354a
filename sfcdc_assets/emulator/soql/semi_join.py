"""What a semi-join, `field IN (SELECT ...)`, may be: the limits, and where they are known the words, of Salesforce.

"Semi-Joins with IN and Anti-Joins with NOT IN" of https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/
soql_sosl/sforce_api_calls_soql_select_comparisonoperators.htm
"""

from __future__ import annotations

from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.soql.field_path import FieldPaths
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import Chain, Condition, Membership, Name, Negation, tests_in

_MOST = 2
_NOT_INNER = frozenset({"ActivityHistory", "Attachment", "Event", "Note", "OpenActivity", "Task"})


def check_places(where: Condition, text: str) -> None:
    """Semi-joins stand among the conditions that AND joins, at most two. Raises QueryError MALFORMED_QUERY."""
    top = where.conditions if isinstance(where, Chain) and where.operator == "AND" else (where,)
    joins = [test for test in tests_in(where) if isinstance(test, Membership)]
    for join in joins:
        if any(each is join for each in top):
            continue
        reason = (
            "Semi join sub-selects are only allowed at the top level WHERE expressions and not in nested WHERE "
            "expressions"
        )
        for word, kind in (("OR", Chain), ("NOT", Negation)):
            if len(top) == 1 and isinstance(where, kind):
                reason = f"Semi join sub-selects are not allowed with the '{word}' operator"
        raise refusal("MALFORMED_QUERY", text, join.field.position, reason)
    if len(joins) > _MOST:
        reason = f"Maximum {_MOST} semi join sub-selects are allowed"
        raise refusal("MALFORMED_QUERY", text, joins[_MOST].field.position, reason)


def inner_column(membership: Membership, outer: FieldPaths, inner: FieldPaths) -> str:
    """The SQL expression of the ids that the inner query gives. Raises QueryError: MALFORMED_QUERY, INVALID_FIELD."""
    query, left = membership.query, membership.field
    (only, *more) = query.items or (None,)
    if more or not isinstance(only, Name) or query.is_aggregate or query.order_by or query.limit is not None:
        reason = "semi join sub-selects can only query id fields, in no order or limit"
        raise outer.refuse("MALFORMED_QUERY", query.entity, reason)
    if query.where is not None and any(isinstance(test, Membership) for test in tests_in(query.where)):
        raise outer.refuse("MALFORMED_QUERY", query.entity, "Nesting of semi join sub-selects is not supported")
    if len(outer.steps(left)) > 1:
        reason = f"The left operand '{left.text}' cannot have more than one level of relationships"
        raise outer.refuse("INVALID_FIELD", left, reason)
    if inner.definition.name in _NOT_INNER:
        reason = f"Entity '{inner.definition.name}' is not supported for semi join inner selects"
        raise outer.refuse("MALFORMED_QUERY", query.entity, reason)
    if inner.definition.name == outer.definition.name:
        reason = "The inner and outer selects should not be on the same object type"
        raise outer.refuse("MALFORMED_QUERY", query.entity, reason)
    if len(inner.steps(only)) > 1:
        reason = f"semi join sub-selects can only query id fields, cannot use: '{only.text}'"
        raise outer.refuse("MALFORMED_QUERY", only, reason)
    column, field = inner.column(only)
    if field.type not in {"id", "reference"}:
        reason = f"The inner select field '{field.name}' of a semi join must be an ID"
        raise outer.refuse("INVALID_FIELD", only, reason)
    here, there = _objects(outer.column(left)[1], outer.definition), _objects(field, inner.definition)
    if here and there and not here & there:
        reason = (
            f"The selected field '{field.name}' in the subquery and the left operand field '{left.text}' in the where "
            "expression in the outer query should point to the same object type"
        )
        raise outer.refuse("INVALID_FIELD", left, reason)
    return column


def _objects(field: FieldDefinition, definition: ObjectDefinition) -> set[str]:
    """The objects whose ids a field holds; empty where the org does not know."""
    return {definition.name} if field.type == "id" else set(field.reference_to)
