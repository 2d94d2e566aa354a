"""FROM, WHERE, ORDER BY and LIMIT: which rows of an object a query is about, in which order, and how many of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.soql.condition import ConditionCompiler, Sql, is_sortable
from sfcdc_assets.emulator.soql.date_function import date_part
from sfcdc_assets.emulator.soql.field_path import FieldPaths, named_object
from sfcdc_assets.emulator.soql.literal_value import Parameter
from sfcdc_assets.emulator.soql.ordering import ordered
from sfcdc_assets.emulator.soql.refusal import refusal
from sfcdc_assets.emulator.soql.syntax import (
    Aggregate,
    Chain,
    Condition,
    DateFunction,
    Membership,
    Name,
    Negation,
    Operand,
    Ordering,
    Query,
    named_field,
    tests_in,
)

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
    """Return the SQL expression of the ids that the inner query gives. Raises QueryError: MALFORMED_QUERY,
    INVALID_FIELD."""
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
    """Return the objects whose ids a field holds; empty where the org does not know."""
    return {definition.name} if field.type == "id" else set(field.reference_to)


_MAX_OFFSET = 2_000
_MAX_ORDERED = 32
"""https://developer.salesforce.com/docs/atlas.en-us.soql_sosl.meta/soql_sosl/
sforce_api_calls_soql_select_orderby.htm"""
Shared = Callable[[ObjectDefinition], str | None]
"""What the rows `r` of an object must fulfil to be seen, as SQL; None: nothing."""
Resolve = Callable[[Operand], tuple[str, FieldDefinition]]


@dataclass(frozen=True)
class RowSource:
    """The rows `r` of one query, or of an inner one of it. Raises QueryError.

    `now` is epoch ms; `include_deleted` is queryAll, for inner queries too.
    """

    paths: FieldPaths
    now: int
    include_deleted: bool
    shared: Shared | None

    @property
    def query(self) -> Query:
        """The query whose rows these are."""
        return self.paths.query

    def inner(self, query: Query, definition: ObjectDefinition) -> RowSource:
        """Return the rows of an inner query."""
        self.paths.others[definition.name] = definition
        return replace(self, paths=replace(self.paths, query=query, definition=definition))

    def rows(self, parent_field: str | None = None) -> Sql:
        """Return FROM and WHERE. With `parent_field`, only rows whose field is one of some ids: one more parameter,
        which is a JSON list."""
        definition, where = self.paths.definition, self.query.where
        conditions = [] if self.include_deleted else ['r."IsDeleted" = 0', *_not_archived(self.paths.definition)]
        seen = self.shared(definition) if self.shared else None
        conditions += [seen] if seen else []
        parameters: tuple[Parameter, ...] = ()
        if where is not None:
            check_places(where, self.query.text)
            condition, parameters = self.condition(where, self.column)
            conditions.append(condition)
        if parent_field is not None:
            conditions.append(f"r.{quoted(parent_field)} IN (SELECT value FROM json_each(?))")
        sql = f"FROM {quoted(definition.name)} AS r"
        return sql + (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters

    @property
    def order(self) -> str:
        """ORDER BY, with a space before it."""
        self.check_order()
        # Salesforce leaves the order of equal rows open; by creation, pages are the same each time.
        return f" ORDER BY {', '.join([*map(self._ordering, self.query.order_by), 'r.rowid'])}"

    def check_order(self) -> None:
        """Raise QueryError for too many fields in ORDER BY."""
        if len(self.query.order_by) > _MAX_ORDERED:
            name = named_field(self.query.order_by[_MAX_ORDERED].field)
            raise self.paths.refuse("MALFORMED_QUERY", name, f"ORDER BY has at most {_MAX_ORDERED} fields")

    @property
    def limit(self) -> str:
        """LIMIT and OFFSET, with a space before them."""
        limit, offset = self.query.limit, self.query.offset
        if offset > _MAX_OFFSET:
            raise QueryError("NUMBER_OUTSIDE_VALID_RANGE", f"Maximum SOQL offset allowed is {_MAX_OFFSET}")
        return "" if limit is None and not offset else f" LIMIT {-1 if limit is None else limit} OFFSET {offset}"

    def condition(self, condition: Condition, resolve: Resolve) -> Sql:
        """Return a condition of the query; `resolve` says what its operands are."""
        return ConditionCompiler(self.query.text, resolve, self.now, self._semi_join).compile(condition)

    def column(self, operand: Operand) -> tuple[str, FieldDefinition]:
        """Return a column for WHERE and ORDER BY, which know no aggregates where nothing is grouped."""
        if isinstance(operand, Aggregate):
            raise self.paths.refuse("MALFORMED_QUERY", operand.field, f"unexpected token: '{operand.function}'")
        column, field = self.paths.column(named_field(operand))
        if isinstance(operand, DateFunction):
            return date_part(operand, column, field, self.query.text)
        return column, field

    def _ordering(self, ordering: Ordering) -> str:
        column, field = self.column(ordering.field)
        if not is_sortable(field):
            reason = f"field '{field.name}' can not be sorted in a query call"
            raise self.paths.refuse("INVALID_FIELD", named_field(ordering.field), reason)
        return ordered(column, field, ordering)

    def _semi_join(self, membership: Membership) -> Sql:
        query = membership.query
        inner = self.inner(query, named_object(self.paths.definitions, query.text, query.entity))
        column = inner_column(membership, self.paths, inner.paths)
        rows, parameters = inner.rows()
        return f"SELECT {column} {rows}", parameters


def _not_archived(definition: ObjectDefinition) -> list[str]:
    """Return the conditions that leave archived activities out, which are shown by queryAll alone."""
    return ['r."IsArchived" = 0'] if "IsArchived" in definition.fields_by_name else []
