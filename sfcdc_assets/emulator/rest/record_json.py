"""Rows of a compiled query as the records of REST answers (docs/salesforce-streams.md, "SOQL queries")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery, ParentByType, SelectedField


def record_json(compiled: CompiledQuery, row: Sequence[Any], data_path: str) -> dict[str, Any]:
    """One record with its attributes, parents nested, compounds as objects, nulls explicit."""
    if compiled.counts:
        values = [
            value if field is None else rest_value(field, value)
            for field, value in zip(compiled.count_fields, row, strict=True)
        ]
        return {"attributes": {"type": "AggregateResult"}} | dict(zip(compiled.counts, values, strict=True))
    record: dict[str, Any] = {"attributes": _attributes(compiled.definition.name, row[0], data_path)}
    places: dict[tuple[str, ...], dict[str, Any] | None] = {(): record}
    parents = {parent.path: parent for parent in compiled.parents}
    for selected in compiled.selected:
        if len(selected.path) == 1:
            record[selected.path[0]] = _value(selected, row)
            continue
        for depth in range(1, len(selected.path)):
            path = selected.path[:depth]
            if path not in places:
                parent_id = row[parents[path].id_column]
                holder = places[path[:-1]]
                attributes = _attributes(parents[path].definition.name, parent_id, data_path)
                places[path] = {"attributes": attributes} if parent_id is not None else None
                if holder is not None:
                    holder[path[-1]] = places[path]
        place = places[selected.path[:-1]]
        if place is not None:
            place[selected.path[-1]] = _value(selected, row)
    for selected in compiled.selected:
        if selected.field.type == "base64" and len(selected.path) == 1 and record[selected.field.name] is not None:
            record[selected.field.name] = f"{record['attributes']['url']}/{selected.field.name}"
    for parent in compiled.by_type:
        record[parent.name] = _by_type(parent, row, data_path)
    return record


def _by_type(parent: ParentByType, row: Sequence[Any], data_path: str) -> dict[str, Any] | None:
    """Return the parent with the fields that are chosen for its object; null without one, or where none are chosen."""
    parent_id = row[parent.id_column]
    found = next((each for each in parent.definitions if str(parent_id).startswith(each.key_prefix)), None)
    if found is None or found.name not in parent.fields:
        return None
    values = {selected.path[0]: _value(selected, row) for selected in parent.fields[found.name]}
    return {"attributes": _attributes(found.name, parent_id, data_path), **values}


def rest_value(field: FieldDefinition, value: Any) -> Any:
    """Return a stored value in its REST form: datetimes end in +0000, times in Z. Values of any type are kept as text
    where they are checkboxes."""
    form = _FORMS.get(field.type)
    return value if form is None else form(value)


@lru_cache(maxsize=4096)
def _moment(value: int) -> str:
    """Return a datetime's form. A record's stamps are mostly one moment, and many records have it."""
    return datetime_text(value, "+0000")


_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "anyType": lambda value: value == "true" if value in ("true", "false") else value,
    "boolean": bool,
    "datetime": lambda value: None if value is None else _moment(value),
    "time": lambda value: None if value is None else f"{value}Z",
}


def _value(selected: SelectedField, row: Sequence[Any]) -> Any:
    if not selected.components:
        return rest_value(selected.field, row[selected.first])
    values = row[selected.first : selected.first + len(selected.components)]
    if all(value is None for value in values):
        return None
    return {
        _component_key(selected.field, part): value for part, value in zip(selected.components, values, strict=True)
    }


def _component_key(compound: FieldDefinition, part: FieldDefinition) -> str:
    """BillingAddress, BillingPostalCode -> postalCode; Location__c, Location__Latitude__s -> latitude."""
    if compound.type == "location":
        short = part.name.removesuffix("__s").rsplit("__", 1)[-1]
    else:
        short = part.name.removeprefix(compound.name.removesuffix("Address"))
    return short[0].lower() + short[1:]


def _attributes(entity: str, record_id: str, data_path: str) -> dict[str, str]:
    return {"type": entity, "url": f"{data_path}/sobjects/{entity}/{record_id}"}
