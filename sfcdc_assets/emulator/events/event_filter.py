"""Filter expressions of channel members: SOQL conditions over the fields of a record, without WHERE.

A record is compared as it is after the change (before a delete), so one that leaves the filter raises no event any
more. See https://developer.salesforce.com/docs/atlas.en-us.change_data_capture.meta/change_data_capture/cdc_filters.htm
Fields of the event's header are not understood here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.org.database import Database, quoted
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.soql.parser import parse_query
from sfcdc_assets.emulator.soql.syntax import Comparison, Condition, Name, tests_in


def check_filter(expression: str, definition: ObjectDefinition) -> None:
    """Raise QueryError for an expression that is no condition over fields of the object."""
    query = compile_query(_query(expression, definition), {definition.name: definition}, now=0).query
    more = query.order_by or query.limit is not None or query.offset or query.all_rows or query.is_aggregate
    if more or query.where is None or None in _names(query.where):
        raise QueryError("MALFORMED_QUERY", "a filter expression has conditions only")
    for name in filtered_fields(expression, definition):
        if definition.fields_by_name[name].is_formula:
            raise QueryError("INVALID_FIELD", f"formula field {name} is not supported in a filter expression")


def filtered_fields(expression: str, definition: ObjectDefinition) -> tuple[str, ...]:
    """Return the fields that the expression names: events carry them even where they did not change."""
    where = parse_query(_query(expression, definition)).where
    names = dict.fromkeys(_names(where)) if where is not None else {}
    fields = (definition.field(name) for name in names if name is not None)
    return tuple(field.name for field in fields if field is not None)


def matches(
    expression: str, definition: ObjectDefinition, record: Mapping[str, object], database: Database, now: int = 0
) -> bool:
    """Return whether a record with these values is in the filter; `now` (epoch ms) is what date literals count from."""
    compiled = compile_query(_query(expression, definition), {definition.name: definition}, now=now)
    names = dict.fromkeys(("Id", *filtered_fields(expression, definition)))
    values = [record.get(name) for name in names]
    # Queries leave out deleted and archived records, of which events come all the same.
    always = [f"0 AS {quoted(name)}" for name in ("IsDeleted", "IsArchived") if name not in names]
    columns = ", ".join([*(f"? AS {quoted(name)}" for name in names), *always])
    _, _, condition = compiled.sql.partition(" WHERE ")
    condition = condition.rpartition(" ORDER BY ")[0]
    found = database.row(f"SELECT 1 FROM (SELECT {columns}) AS r WHERE {condition}", [*values, *compiled.parameters])
    return found is not None


def _query(expression: str, definition: ObjectDefinition) -> str:
    return f"SELECT Id FROM {definition.name} WHERE {expression}"


def _names(condition: Condition) -> Iterator[str | None]:
    """Yield the fields of a condition; None for what is more than a field."""
    for test in tests_in(condition):
        yield test.field.text if isinstance(test, Comparison) and isinstance(test.field, Name) else None
