"""A syntax tree and the org's objects to one SQLite query with bound parameters: records, groups or a count."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.relationships import child_relationship
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.soql.aggregation import Aggregation
from sfcdc_assets.emulator.soql.compiled_query import ChildRows, CompiledQuery
from sfcdc_assets.emulator.soql.field_path import FieldPaths, named_object
from sfcdc_assets.emulator.soql.ordering import ordered
from sfcdc_assets.emulator.soql.parser import parse_query
from sfcdc_assets.emulator.soql.row_source import RowSource, Shared
from sfcdc_assets.emulator.soql.selection import Selection
from sfcdc_assets.emulator.soql.syntax import ChildQuery, ComputedField, Membership, TypeOf, named_field, tests_in

_MAX_COLUMNS = 1_500
"""What a query may select; SQLite has 2,000 columns."""


def compile_query(
    text: str,
    definitions: Mapping[str, ObjectDefinition],
    *,
    now: int,
    include_deleted: bool = False,
    hidden: Collection[str] = (),
    shared: Shared | None = None,
    behind_formulas: Mapping[str, ObjectDefinition] | None = None,
) -> CompiledQuery:
    """Parse, check and compile. `now` is epoch ms; `include_deleted` is queryAll; `hidden` objects do not exist.
    `behind_formulas` are the objects as formulas see them, if the client sees less.

    Raises QueryError: MALFORMED_QUERY, INVALID_TYPE, INVALID_FIELD, INVALID_QUERY_FILTER_OPERATOR,
    NUMBER_OUTSIDE_VALID_RANGE.
    """
    query = parse_query(text)
    visible = {name: definition for name, definition in definitions.items() if name not in hidden}
    paths = FieldPaths(query, named_object(visible, text, query.entity), visible, behind_formulas or {})
    source = RowSource(paths, now, include_deleted or query.all_rows, shared)
    if query.having is not None and not query.group_by:
        raise QueryError("MALFORMED_QUERY", "HAVING needs GROUP BY")
    if query.is_aggregate:
        return _groups(source)
    return _count(source) if query.is_count else _records(source)


def _count(source: RowSource) -> CompiledQuery:
    query, paths = source.query, source.paths
    if query.order_by:
        reason = "COUNT() cannot be used with ORDER BY"
        raise paths.refuse("MALFORMED_QUERY", named_field(query.order_by[0].field), reason)
    rows, parameters = source.rows()
    return CompiledQuery(
        query,
        paths.definition,
        f"SELECT COUNT(*) FROM (SELECT 1 {rows}{source.limit})",
        parameters,
        counts=("count",),
        count_fields=(None,),
        others=tuple(paths.others.values()),
    )


def _records(source: RowSource, parent_field: str | None = None) -> CompiledQuery:
    """Return a query for records; with `parent_field`, for those whose field is one of some ids."""
    query, paths = source.query, source.paths
    for item in query.items:
        if isinstance(item, ComputedField):
            reason = f"Field must be grouped or aggregated: {item.operand.function}({item.operand.field.text})"
            raise paths.refuse("MALFORMED_QUERY", item.operand.field, reason)
    rows, parameters = source.rows(parent_field)
    order = source.order
    selection = Selection(paths)
    children = tuple(_children(source, item) for item in query.items if isinstance(item, ChildQuery))
    if parent_field is not None:
        if children:
            raise paths.refuse("MALFORMED_QUERY", query.entity, "this org nests queries of children one deep")
        selection.columns.append(f"r.{quoted(parent_field)}")
    for each in selection.by_type:
        paths.others.update({one.name: one for one in each.definitions if one.name in each.fields})
    _check_columns(source, len(selection.columns))
    limit = source.limit if parent_field is None else ""
    return CompiledQuery(
        query,
        paths.definition,
        f"SELECT {', '.join(selection.columns)} {rows}{order}{limit}",
        parameters,
        selected=selection.fields,
        parents=selection.parents,
        children=children,
        by_type=selection.by_type,
        others=tuple(paths.others.values()),
    )


def _children(source: RowSource, item: ChildQuery) -> ChildRows:
    query, paths = item.query, source.paths
    relationship = child_relationship(paths.definition, paths.definitions, query.entity.text)
    if relationship is None or relationship.name is None:
        raise paths.refuse(
            "INVALID_TYPE",
            query.entity,
            f"Didn't understand relationship '{query.entity.text}' in FROM part of query call. If you are "
            "attempting to use a custom relationship, be sure to append the '__r' after the custom relationship "
            "name. Please reference your WSDL or the describe call for the appropriate names.",
        )
    if query.is_aggregate or query.is_count or query.having is not None:
        reason = "Aggregates are not allowed in a query of children"
        raise paths.refuse("MALFORMED_QUERY", query.entity, reason)
    inner = _records(source.inner(query, relationship.child), relationship.field.name)
    return ChildRows(relationship.name, inner, query.limit, query.offset)


def _groups(source: RowSource) -> CompiledQuery:
    query, paths = source.query, source.paths
    if query.is_count:
        raise paths.refuse("MALFORMED_QUERY", query.entity, "COUNT() cannot be used with GROUP BY")
    if not query.group_by and (query.limit is not None or query.offset):
        message = "Non-grouped query that uses overall aggregate functions cannot also use LIMIT"
        raise QueryError("MALFORMED_QUERY", message)
    for item in query.items:
        if isinstance(item, TypeOf):
            raise paths.refuse("MALFORMED_QUERY", item.relationship, "TYPEOF is not allowed in aggregate queries")
    rows, parameters = source.rows()
    aggregation = Aggregation(query, source.column)
    having = ""
    if query.having is not None:
        if any(isinstance(test, Membership) for test in tests_in(query.having)):
            raise paths.refuse("MALFORMED_QUERY", query.entity, "HAVING cannot have semi-joins")
        condition, more = source.condition(query.having, aggregation.resolve)
        having, parameters = f" HAVING {condition}", (*parameters, *more)
    source.check_order()
    order = ", ".join(ordered(*aggregation.resolve(item.field), item) for item in query.order_by)
    columns = aggregation.columns
    _check_columns(source, max(len(columns), aggregation.width))
    # The inner query has the columns of HAVING and ORDER BY too, so it is written last.
    sql = f"SELECT {', '.join(column.expression for column in columns)} FROM (SELECT {aggregation.inner} {rows})"
    return CompiledQuery(
        query,
        paths.definition,
        f"{sql}{aggregation.grouping}{having}{' ORDER BY ' if order else ''}{order}{source.limit}",
        parameters,
        counts=tuple(column.name for column in columns),
        count_fields=tuple(column.field for column in columns),
        others=tuple(paths.others.values()),
    )


def _check_columns(source: RowSource, count: int) -> None:
    if count > _MAX_COLUMNS:
        reason = f"a query selects at most {_MAX_COLUMNS:,} fields"
        raise source.paths.refuse("QUERY_TOO_COMPLICATED", source.query.entity, reason)
