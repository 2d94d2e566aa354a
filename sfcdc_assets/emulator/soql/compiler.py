"""A syntax tree and the org's objects to one SQLite query: what it reads, in which order, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.relationships import child_relationship
from sfcdc_assets.emulator.soql.aggregation import Aggregation
from sfcdc_assets.emulator.soql.compiled_query import ChildRows, CompiledQuery
from sfcdc_assets.emulator.soql.condition import ConditionCompiler, Sql, is_sortable
from sfcdc_assets.emulator.soql.field_path import FieldPaths, named_object
from sfcdc_assets.emulator.soql.literal_value import Parameter
from sfcdc_assets.emulator.soql.parser import parse_query
from sfcdc_assets.emulator.soql.selection import Selection
from sfcdc_assets.emulator.soql.syntax import Aggregate, ChildQuery, Membership, Name, Ordering, Query, TypeOf

_MAX_OFFSET = 2_000
Shared = Callable[[ObjectDefinition], str | None]
"""What the rows `r` of an object must fulfil to be seen, as SQL; None: nothing."""


def compile_query(
    text: str,
    definitions: Mapping[str, ObjectDefinition],
    *,
    now: int,
    include_deleted: bool = False,
    hidden: Collection[str] = (),
    shared: Shared | None = None,
) -> CompiledQuery:
    """Parse, check and compile. `now` is epoch ms; `include_deleted` is queryAll; `hidden` objects do not exist.

    Raises QueryError: MALFORMED_QUERY, INVALID_TYPE, INVALID_FIELD, INVALID_QUERY_FILTER_OPERATOR,
    NUMBER_OUTSIDE_VALID_RANGE.
    """
    query = parse_query(text)
    visible = {name: definition for name, definition in definitions.items() if name not in hidden}
    paths = FieldPaths(query, named_object(visible, text, query.entity), visible)
    return _Compilation(paths, now, include_deleted or query.all_rows, shared).compile()


@dataclass(frozen=True)
class _Compilation:
    """One query, or an inner one of it."""

    paths: FieldPaths
    now: int
    include_deleted: bool
    shared: Shared | None

    @property
    def query(self) -> Query:
        return self.paths.query

    @property
    def _others(self) -> tuple[ObjectDefinition, ...]:
        return tuple(self.paths.others.values())

    def compile(self) -> CompiledQuery:
        query, definition = self.query, self.paths.definition
        if query.is_aggregate:
            return self._groups()
        if query.having is not None:
            raise QueryError("MALFORMED_QUERY", "HAVING needs GROUP BY")
        if query.is_count:
            rows, parameters = self._from_where()
            sql = f"SELECT COUNT(*) FROM (SELECT 1 {rows}{self._limit()})"
            return CompiledQuery(
                query, definition, sql, parameters, counts=("count",), count_fields=(None,), others=self._others
            )
        return self._records()

    def _records(self, parent_field: str | None = None) -> CompiledQuery:
        """A query for records; with `parent_field`, for those whose field is one of some ids."""
        rows, parameters = self._rows(parent_field)
        selection = Selection(self.paths)
        children = tuple(self._children(item) for item in self.query.items if isinstance(item, ChildQuery))
        if parent_field is not None:
            if children:
                reason = "this org nests queries of children one deep"
                raise self.paths.refuse("MALFORMED_QUERY", self.query.entity, reason)
            selection.columns.append(f"r.{quoted(parent_field)}")
        for each in selection.by_type:
            self.paths.others.update({one.name: one for one in each.definitions if one.name in each.fields})
        limit = self._limit() if parent_field is None else ""
        return CompiledQuery(
            self.query,
            self.paths.definition,
            f"SELECT {', '.join(selection.columns)} {rows}{limit}",
            parameters,
            selected=selection.fields,
            parents=selection.parents,
            children=children,
            by_type=selection.by_type,
            others=self._others,
        )

    def _groups(self) -> CompiledQuery:
        query = self.query
        if not query.group_by and (query.limit is not None or query.offset):
            message = "Non-grouped query that uses overall aggregate functions cannot also use LIMIT"
            raise QueryError("MALFORMED_QUERY", message)
        for item in query.items:
            if isinstance(item, TypeOf):
                reason = "TYPEOF is not allowed in aggregate queries"
                raise self.paths.refuse("MALFORMED_QUERY", item.relationship, reason)
        rows, parameters = self._from_where()
        aggregation = Aggregation(query, self.paths.column)
        columns = aggregation.columns()
        sql = f"SELECT {', '.join(column.expression for column in columns)} FROM (SELECT {aggregation.inner} {rows})"
        sql += aggregation.grouping
        if query.having is not None:
            compiler = ConditionCompiler(query.text, aggregation.resolve, self.now, self._semi_join)
            condition, more = compiler.compile(query.having)
            sql, parameters = f"{sql} HAVING {condition}", (*parameters, *more)
        order = [_direction(aggregation.resolve(item.field)[0], item) for item in query.order_by]
        return CompiledQuery(
            query,
            self.paths.definition,
            sql + (f" ORDER BY {', '.join(order)}" if order else "") + self._limit(),
            parameters,
            counts=tuple(column.name for column in columns),
            count_fields=tuple(column.field for column in columns),
            others=self._others,
        )

    def _children(self, item: ChildQuery) -> ChildRows:
        query = item.query
        relationship = child_relationship(self.paths.definition, self.paths.definitions, query.entity.text)
        if relationship is None or relationship.name is None:
            raise self.paths.refuse(
                "INVALID_TYPE",
                query.entity,
                f"Didn't understand relationship '{query.entity.text}' in FROM part of query call. If you are "
                "attempting to use a custom relationship, be sure to append the '__r' after the custom relationship "
                "name. Please reference your WSDL or the describe call for the appropriate names.",
            )
        if query.is_aggregate or query.is_count or query.having is not None:
            reason = "Aggregates are not allowed in a query of children"
            raise self.paths.refuse("MALFORMED_QUERY", query.entity, reason)
        inner = self._inner(query, relationship.child)._records(relationship.field.name)
        return ChildRows(relationship.name, inner, query.limit, query.offset)

    def _semi_join(self, membership: Membership) -> Sql:
        """The SQL of a semi-join's inner query, which gives ids."""
        query = membership.query
        (only, *more) = query.items or (None,)
        if more or not isinstance(only, Name) or query.order_by or query.limit is not None or query.offset:
            reason = "semi join sub-selects can only query id fields, in no order or limit"
            raise self.paths.refuse("MALFORMED_QUERY", query.entity, reason)
        inner = self._inner(query, named_object(self.paths.definitions, query.text, query.entity))
        column, field_ = inner.paths.column(only)
        if field_.type not in {"id", "reference"}:
            reason = f"The inner select field '{field_.name}' of a semi join must be an ID"
            raise self.paths.refuse("INVALID_FIELD", only, reason)
        rows, parameters = inner._from_where()
        return f"SELECT {column} {rows}", parameters

    def _inner(self, query: Query, definition: ObjectDefinition) -> _Compilation:
        self.paths.others[definition.name] = definition
        return replace(self, paths=replace(self.paths, query=query, definition=definition))

    def _rows(self, parent_field: str | None = None) -> Sql:
        """FROM, WHERE and ORDER BY."""
        sql, parameters = self._from_where(parent_field)
        # Salesforce leaves the order of equal rows open; by creation, pages are the same each time.
        order = [*(self._ordering(item) for item in self.query.order_by), "r.rowid"]
        return f"{sql} ORDER BY {', '.join(order)}", parameters

    def _from_where(self, parent_field: str | None = None) -> Sql:
        definition, where = self.paths.definition, self.query.where
        conditions = [] if self.include_deleted else ['r."IsDeleted" = 0']
        seen = self.shared(definition) if self.shared else None
        conditions += [seen] if seen else []
        parameters: tuple[Parameter, ...] = ()
        if where is not None:
            compiler = ConditionCompiler(self.query.text, self._filtered, self.now, self._semi_join)
            condition, parameters = compiler.compile(where)
            conditions.append(condition)
        if parent_field is not None:
            conditions.append(f"r.{quoted(parent_field)} IN (SELECT value FROM json_each(?))")
        sql = f"FROM {quoted(definition.name)} AS r"
        return sql + (f" WHERE {' AND '.join(conditions)}" if conditions else ""), parameters

    def _filtered(self, operand: Name | Aggregate) -> tuple[str, FieldDefinition]:
        """For WHERE and ORDER BY, which know no aggregates where nothing is grouped."""
        if isinstance(operand, Aggregate):
            raise self.paths.refuse("MALFORMED_QUERY", operand.field, f"unexpected token: '{operand.function}'")
        return self.paths.column(operand)

    def _ordering(self, ordering: Ordering) -> str:
        column, field_ = self._filtered(ordering.field)
        if not is_sortable(field_) and isinstance(ordering.field, Name):
            reason = f"field '{field_.name}' can not be sorted in a query call"
            raise self.paths.refuse("INVALID_FIELD", ordering.field, reason)
        return _direction(column if field_.type in {"id", "reference"} else f"sf_fold({column})", ordering)

    def _limit(self) -> str:
        limit, offset = self.query.limit, self.query.offset
        if offset > _MAX_OFFSET:
            raise QueryError("NUMBER_OUTSIDE_VALID_RANGE", f"Maximum SOQL offset allowed is {_MAX_OFFSET}")
        return "" if limit is None and not offset else f" LIMIT {-1 if limit is None else limit} OFFSET {offset}"


def _direction(expression: str, ordering: Ordering) -> str:
    direction, nulls = ("DESC" if ordering.descending else "ASC"), ("LAST" if ordering.nulls_last else "FIRST")
    return f"{expression} {direction} NULLS {nulls}"
