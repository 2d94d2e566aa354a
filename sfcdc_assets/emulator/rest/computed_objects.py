"""SOQL over objects that are no tables of the org but are computed when they are asked for: setup and permissions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sfcdc_assets.emulator.database import quoted
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.object_file import object_definition
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.store import columns_of
from sfcdc_assets.emulator.transaction import StoredValue

ComputedRow = Mapping[str, StoredValue]


def computed_object(
    name: str, prefix: str, fields: Mapping[str, Mapping[str, Any]], name_field: str | None = None
) -> ObjectDefinition:
    """An object with these fields, in the form of object files, beside Id and the audit fields."""
    document = {
        "name": name,
        "label": name,
        "key_prefix": prefix,
        "name_field": name_field,
        "fields": [{field: dict(options)} for field, options in fields.items()],
    }
    return object_definition(document, name)


def query_computed(
    org: EmulatedOrg,
    text: str,
    definitions: Mapping[str, ObjectDefinition],
    rows: Callable[[ObjectDefinition], Sequence[ComputedRow]],
    hidden: Collection[str] = (),
) -> tuple[CompiledQuery, list[tuple[Any, ...]]]:
    """The query and its rows. `rows` gives an object's rows now; `hidden` objects do not exist. Raises QueryError."""
    database = org.database
    compiled = compile_query(text, definitions, now=org.clock(), hidden=hidden)
    with database.lock:
        made: list[str] = []
        try:
            # Made again for each query: what they are computed from may change at any time.
            for definition in _asked_for(compiled.definition, definitions):
                names = [field.name for field in columns_of(definition)]
                names += ["IsDeleted"] if "IsDeleted" not in names else []  # every query looks at it
                database.execute(f"CREATE TEMP TABLE {quoted(definition.name)} ({', '.join(map(quoted, names))})")
                made.append(definition.name)
                database.execute_many(
                    f"INSERT INTO {quoted(definition.name)} VALUES ({', '.join('?' * len(names))})",
                    [tuple(row[name] for name in names) for row in rows(definition)],
                )
            return compiled, database.rows(compiled.sql, compiled.parameters)
        finally:
            for name in made:
                database.execute(f"DROP TABLE {quoted(name)}")


def _asked_for(first: ObjectDefinition, definitions: Mapping[str, ObjectDefinition]) -> list[ObjectDefinition]:
    """The object of a query and those its fields may lead to: the others need no rows."""
    found, waiting = {first.name: first}, [first]
    while waiting:
        for field in waiting.pop().fields:
            for name in field.reference_to:
                if name in definitions and name not in found:
                    found[name] = definitions[name]
                    waiting.append(definitions[name])
    return list(found.values())


def audit_fields(org: EmulatedOrg, record_id: str, created: int) -> dict[str, str | int]:
    """The fields that every object has."""
    moment = created // 1000 * 1000
    return {
        "Id": record_id,
        "IsDeleted": 0,
        "CreatedDate": moment,
        "CreatedById": org.users.integration,
        "LastModifiedDate": moment,
        "LastModifiedById": org.users.integration,
        "SystemModstamp": moment,
    }
