"""Rows as Bulk API 2.0 writes them: every value quoted, null an empty quoted value, datetimes ending in Z
(docs/salesforce-streams.md, "Bulk API 2.0 queries")."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sfcdc_assets.emulator.field_value import datetime_text
from sfcdc_assets.emulator.object_definition import FieldDefinition
from sfcdc_assets.emulator.settings import DAY

DELIMITERS = {"COMMA": ",", "SEMICOLON": ";", "TAB": "\t", "PIPE": "|", "CARET": "^", "BACKQUOTE": "`"}
LINE_ENDINGS = {"LF": "\n", "CRLF": "\r\n"}


def cells(field: FieldDefinition, values: Sequence[Any]) -> list[str]:
    """Stored values of a field as cells. A column at a time: results have millions of them."""
    if field.type == "boolean":
        return ['"true"' if value else '"false"' for value in values]
    if field.type == "datetime":
        return ['""' if value is None else f'"{_datetime(value)}"' for value in values]
    if field.type == "time":
        return ['""' if value is None else f'"{value}Z"' for value in values]
    if all(value is None or type(value) is str for value in values) and '"' not in "".join(filter(None, values)):
        return ['""' if value is None else f'"{value}"' for value in values]
    return [_cell(value) for value in values]


def quoted_cell(text: str) -> str:
    """A text as a cell: quotes inside are doubled, line breaks stay as they are."""
    return '"' + text.replace('"', '""') + '"'


def csv_line(values: Sequence[str], delimiter: str) -> str:
    """One line of texts without its ending."""
    return delimiter.join(map(quoted_cell, values))


def _cell(value: Any) -> str:
    if value is None:
        return '""'
    return quoted_cell(java_double(value) if isinstance(value, float) else str(value))


def _datetime(milliseconds: int) -> str:
    """As `datetime_text` writes it, with Z."""
    day, of_day = divmod(milliseconds, DAY)
    seconds, thousandths = divmod(of_day, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_date(day)}T{hour:02}:{minute:02}:{second:02}.{thousandths:03}Z"


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    return datetime_text(day * DAY, "")[:10]


def java_double(value: float) -> str:
    """A double as Java prints it, which is how Salesforce does: 12.5, 0.001, 1.2345678E7, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"
