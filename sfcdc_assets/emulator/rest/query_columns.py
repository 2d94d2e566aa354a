"""What the columns of a query are: `query?q=...&columns=true`, by which the vendor's command line interface finds the
columns of what it prints. No records are read.

The form is that of `QueryColumns` in the Tooling API's types (https://github.com/forcedotcom/sfdx-core,
`@salesforce/types/tooling`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery, SelectedField
from sfcdc_assets.emulator.soql.syntax import ComputedField, FormattedField, Name, Operand

_APEX_TYPES = {
    "id": "Id", "reference": "Id", "boolean": "Boolean", "int": "Integer", "double": "Double", "currency": "Double",
    "percent": "Double", "date": "Date", "datetime": "Datetime", "time": "Time", "address": "Address",
    "location": "Location",
}  # fmt: skip
_NUMBERS = frozenset({"Integer", "Double"})


def asks_for_columns(request: ApiRequest) -> bool:
    """Return whether a query is to be answered with its columns in place of its records."""
    return request.query.get("columns", "").lower() == "true"


def query_columns(compiled: CompiledQuery) -> dict[str, Any]:
    """Return the whole answer. Fields come in their order; after them inner queries and parents by type, as in
    records."""
    definition = compiled.definition
    return {
        "columnMetadata": list(_groups(compiled) if compiled.counts else _fields(compiled)),
        "entityName": definition.name,
        "groupBy": bool(compiled.query.group_by),
        "idSelected": any(each.path == ("Id",) for each in compiled.selected),
        "keyPrefix": definition.key_prefix,
    }


def _groups(compiled: CompiledQuery) -> Iterator[dict[str, Any]]:
    """Yield those of groups; `SELECT COUNT()` has none, because it has no records."""
    for item, name, field in zip(compiled.query.items, compiled.counts, compiled.count_fields, strict=False):
        if isinstance(item, ComputedField | FormattedField):
            yield _column(name, field, shown=_shown(item.operand), aggregate=True)
        else:
            yield _column(name, field)


def _shown(operand: Operand) -> str:
    return operand.text if isinstance(operand, Name) else f"{operand.function.lower()}({operand.field.text})"


def _fields(compiled: CompiledQuery) -> Iterator[dict[str, Any]]:
    yield from _nested(compiled, compiled.selected, ())
    for child in compiled.children:
        yield _column(child.name, None, aggregate=True, inner=list(_fields(child.compiled)))
    for parent in compiled.by_type:
        found = {each.path[0]: each for fields in parent.fields.values() for each in fields}
        inner = [_column(name, each.field) for name, each in found.items()]
        yield _column(parent.name, None, foreign_key=_foreign_key(compiled.definition, parent.name), inner=inner)


def _nested(
    compiled: CompiledQuery, selected: tuple[SelectedField, ...], path: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Yield the columns of the record at `path` (`Account`, `Owner`), parents where the first of their fields
    stands."""
    depth, seen = len(path), set[str]()
    parents = {each.path: each.definition for each in compiled.parents}
    holder = parents.get(path, compiled.definition)
    for each in selected:
        name = each.path[depth]
        if len(each.path) == depth + 1:
            yield _column(name, each.field)
        elif name not in seen:
            seen.add(name)
            below = tuple(one for one in selected if len(one.path) > depth + 1 and one.path[depth] == name)
            inner = list(_nested(compiled, below, (*path, name)))
            yield _column(name, None, foreign_key=_foreign_key(holder, name), inner=inner)


def _foreign_key(definition: ObjectDefinition, relationship: str) -> str | None:
    return next((each.name for each in definition.fields if each.relationship_name == relationship), None)


def _column(
    name: str,
    field: FieldDefinition | None,
    *,
    shown: str | None = None,
    aggregate: bool = False,
    foreign_key: str | None = None,
    inner: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    apex_type = None if field is None or aggregate else _APEX_TYPES.get(field.type, "String")
    is_counted = aggregate and inner is None
    return {
        "aggregate": aggregate,
        "apexType": apex_type,
        "booleanType": apex_type == "Boolean",
        "columnName": name,
        "custom": field is not None and not aggregate and field.custom,
        "displayName": shown or name,
        "foreignKeyName": foreign_key,
        "insertable": apex_type is not None and field is not None and field.createable,
        "joinColumns": inner or [],
        "numberType": apex_type in _NUMBERS or (is_counted and _is_number(field)),
        "textType": apex_type == "String",
        "updatable": apex_type is not None and field is not None and field.updateable,
    }


def _is_number(field: FieldDefinition | None) -> bool:
    """Return whether what an aggregate answers is a number: a plain one has no field whose form it takes."""
    return field is None or _APEX_TYPES.get(field.type) in _NUMBERS
