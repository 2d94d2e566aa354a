"""What a notification of a PushTopic says of a record: the fields that its query selects, in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import datetime_text


def body(names: Sequence[str], definition: ObjectDefinition, record: Mapping[str, StoredValue]) -> dict[str, Any]:
    """Return the values of these fields; a name that has parts brings them all."""
    parts = [part.name for part in definition.components.get("Name", ())] if "Name" in names else []
    return {name: _value(definition, name, record) for name in dict.fromkeys((*names, *parts))}


def _value(definition: ObjectDefinition, name: str, record: Mapping[str, StoredValue]) -> Any:
    """Return a field's value as notifications have it; a compound one has its parts that are not empty."""
    field = definition.field(name)
    if field is None:
        return None
    if field.is_compound and field.name not in record:
        parts = {part.name: _value(definition, part.name, record) for part in definition.components.get(name, ())}
        return {part: value for part, value in parts.items() if value is not None} or None
    value = record.get(field.name)
    if value is None:
        return None
    if field.type == "boolean":
        return bool(value)
    if field.type == "datetime":
        return datetime_text(int(value), "Z")
    return f"{value}Z" if field.type == "time" else value
