"""FORMAT(): a value as the client's user sees it."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition

_FORMATTED = frozenset({"int", "double", "currency", "percent", "date", "datetime", "time"})


def formatted(expression: str, field: FieldDefinition) -> tuple[str, FieldDefinition]:
    """Return the SQL expression and the form of a formatted value; a text stays as it is."""
    if field.type not in _FORMATTED:
        return expression, field
    return f"sf_format('{field.type}', {field.scale}, {expression})", replace(field, type="string")
