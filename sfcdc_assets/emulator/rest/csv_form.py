"""Rows as Bulk API 2.0 writes them: every value quoted, null an empty quoted value, datetimes ending in Z
(docs/salesforce-streams.md, "Bulk API 2.0 queries")."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sfcdc_assets.emulator.field_value import datetime_text
from sfcdc_assets.emulator.object_definition import FieldDefinition

DELIMITERS = {"COMMA": ",", "SEMICOLON": ";", "TAB": "\t", "PIPE": "|", "CARET": "^", "BACKQUOTE": "`"}
LINE_ENDINGS = {"LF": "\n", "CRLF": "\r\n"}


def csv_line(values: Sequence[str], delimiter: str) -> str:
    """One line without its ending; quotes inside values are doubled, line breaks stay as they are."""
    return delimiter.join('"' + value.replace('"', '""') + '"' for value in values)


def csv_value(field: FieldDefinition, value: Any) -> str:
    """A stored value as text."""
    if field.type == "boolean":
        return "true" if value else "false"
    if value is None:
        return ""
    if field.type == "datetime":
        return datetime_text(value, "Z")
    if field.type == "time":
        return f"{value}Z"
    if isinstance(value, float):
        return java_double(value)
    return str(value)


def java_double(value: float) -> str:
    """A double as Java prints it, which is how Salesforce does: 12.5, 0.001, 1.2345678E7, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"
