"""Objects that are no tables of the org but are computed when a query reads them: setup, permissions, streaming."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.org.object_tables import columns_of
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery
from sfcdc_assets.emulator.soql.literal_value import Parameter

ComputedRow = Mapping[str, StoredValue]


def computed_object(
    name: str, prefix: str, fields: Mapping[str, Mapping[str, Any]], name_field: str | None = None
) -> ObjectDefinition:
    """Return an object with these fields, in the form of object files, beside Id and the audit fields."""
    document = {
        "name": name,
        "label": name,
        "key_prefix": prefix,
        "name_field": name_field,
        "fields": [{field: dict(options)} for field, options in fields.items()],
    }
    return object_definition(document, name)


@dataclass(frozen=True)
class ComputedObjects:
    """Some of these objects. `rows` gives an object's rows as they are now; it may raise ApiError."""

    definitions: Mapping[str, ObjectDefinition]
    rows: Callable[[ObjectDefinition], Sequence[ComputedRow]]

    def __or__(self, other: ComputedObjects) -> ComputedObjects:
        """Return these objects and those of another."""
        return ComputedObjects(
            {**self.definitions, **other.definitions},
            lambda each: (other if each.name in other.definitions else self).rows(each),
        )

    def given_to(self, compiled: CompiledQuery) -> CompiledQuery:
        """Return the query with what it reads of these objects as common table expressions, so that it runs like any
        other, whatever it joins them with. Each takes one parameter: the rows as JSON."""
        read = {each.name: each for each in (compiled.definition, *compiled.others) if each.name in self.definitions}
        if not read:
            return compiled
        tables = ", ".join(_table(each) for each in read.values())
        parameters = tuple(_rows_json(each, self.rows(each)) for each in read.values())
        return _with_tables(compiled, f"WITH {tables} ", parameters)


def _table(definition: ObjectDefinition) -> str:
    columns = ", ".join(f"value ->> {number} AS {quoted(name)}" for number, name in enumerate(_columns(definition)))
    # Materialized, it is read by an index for each record that names one of its rows. Queries order by rowid.
    return f"{quoted(definition.name)} AS MATERIALIZED (SELECT key AS rowid, {columns} FROM json_each(?))"


def _columns(definition: ObjectDefinition) -> list[str]:
    names = [field.name for field in columns_of(definition)]
    return names if "IsDeleted" in names else [*names, "IsDeleted"]  # every query looks at it


def _rows_json(definition: ObjectDefinition, rows: Sequence[ComputedRow]) -> str:
    names = _columns(definition)
    return json.dumps([[row[name] for name in names] for row in rows])


def _with_tables(compiled: CompiledQuery, tables: str, parameters: tuple[Parameter, ...]) -> CompiledQuery:
    return replace(
        compiled,
        sql=tables + compiled.sql,
        parameters=(*parameters, *compiled.parameters),
        children=tuple(
            replace(each, compiled=_with_tables(each.compiled, tables, parameters)) for each in compiled.children
        ),
    )


def audit_fields(org: EmulatedOrg, record_id: str, created: int) -> dict[str, str | int]:
    """Return the fields that every object has."""
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
