"""Objects whose rows are no records of the org but told by its set-up, made for each query that asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org import Org
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.soql.compiler import CompiledQuery, compile_query
from sfcdc_assets.emulator.store import columns_of

Rows = Callable[[ObjectDefinition], Iterable[Mapping[str, str | int | None]]]
"""The rows of one of the objects, all fields by name."""


def query_computed(
    org: Org, text: str, definitions: Mapping[str, ObjectDefinition], rows_of: Rows, path: str
) -> tuple[CompiledQuery, int, list[dict[str, Any]]]:
    """A SOQL query over such objects: compiled, with the number of records (or the count) and the records.

    Raises QueryError.
    """
    compiled = compile_query(text, definitions, now=org.clock())
    definition, database = compiled.definition, org.database
    columns = [field.name for field in columns_of(definition)]
    with database.lock:
        database.execute(f"CREATE TEMP TABLE {quoted(definition.name)} ({', '.join(map(quoted, columns))})")
        try:
            rows = [tuple(row[name] for name in columns) for row in rows_of(definition)]
            marks = ", ".join("?" * len(columns))
            database.execute_many(f"INSERT INTO {quoted(definition.name)} VALUES ({marks})", rows)
            found = database.rows(compiled.sql, compiled.parameters)
        finally:
            database.execute(f"DROP TABLE {quoted(definition.name)}")
    if compiled.query.is_count:
        return compiled, found[0][0], []
    return compiled, len(found), [record_json(compiled, row, path) for row in found]
