"""Rows as Bulk API 2.0 writes them: every value quoted, null an empty quoted value, datetimes ending in Z
(docs/salesforce-streams.md, "Bulk API 2.0 queries")."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.settings import DAY
from sfcdc_assets.emulator.records.field_value import datetime_text

DELIMITERS = {"COMMA": ",", "SEMICOLON": ";", "TAB": "\t", "PIPE": "|", "CARET": "^", "BACKQUOTE": "`"}
_NUMBERS = frozenset({"int", "double", "currency", "percent"})
LINE_ENDINGS = {"LF": "\n", "CRLF": "\r\n"}


def cells(field: FieldDefinition, values: Sequence[Any]) -> list[str]:
    """Return stored values of a field as what stands between the quotes of `csv_lines`. A column at a time: results
    have millions of them."""
    if field.type == "boolean":
        return ["true" if value else "false" for value in values]
    if field.type == "datetime":
        return ["" if value is None else _datetime(value) for value in values]
    if field.type == "time":
        return ["" if value is None else f"{value}Z" for value in values]
    if field.type in _NUMBERS:
        return ["" if value is None else _number(value) for value in values]
    texts = ["" if value is None else _number(value) for value in values]  # one of any type may be a number
    return [escaped(text) for text in texts] if '"' in "".join(texts) else texts


def csv_lines(columns: Sequence[Sequence[str]], delimiter: str, ending: str) -> list[str]:
    """Return the lines of a table whose columns are `cells`."""
    between = f'"{delimiter}"'
    return [f'"{between.join(row)}"{ending}' for row in zip(*columns, strict=True)]


def csv_line(values: Sequence[str], delimiter: str) -> str:
    """One line of texts without its ending."""
    return csv_lines([[escaped(value)] for value in values], delimiter, "")[0]


def escaped(text: str) -> str:
    """Return a text inside quotes: quotes of its own are doubled, line breaks stay as they are."""
    return text.replace('"', '""')


def _number(value: float | str) -> str:
    return java_double(value) if isinstance(value, float) else str(value)


def _datetime(milliseconds: int) -> str:
    """Write a time as `datetime_text` does, with Z."""
    day, of_day = divmod(milliseconds, DAY)
    seconds, thousandths = divmod(of_day, 1000)
    return f"{_date(day)}T{_time(seconds)}.{thousandths:03}Z"


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    return datetime_text(day * DAY, "")[:10]


@cache
def _time(seconds: int) -> str:
    """Write a time of day, of which there are 86,400."""
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}"


def java_double(value: float) -> str:
    """Return a double as Java prints it, which is how Salesforce does: 12.5, 0.001, 1.2345678E7, 1.0E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"


_NULL = "#N/A"


def read_rows(text: str, delimiter: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows. Raises ApiError InvalidBatch for what is no such file."""
    try:
        lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ApiError("InvalidBatch", f"Failed to parse CSV: {error}") from None
    if not lines or not any(lines[0]):
        raise ApiError("InvalidBatch", "The CSV has no header row")
    header = [name.strip() for name in lines[0]]
    rows = [line for line in lines[1:] if line]
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            message = f"Row {number} has {len(row)} values, and the header {len(header)}"
            raise ApiError("InvalidBatch", message)
    return header, rows


def record_of(header: list[str], row: list[str]) -> dict[str, Any]:
    """Return the record of a row, in the form of a REST request."""
    record: dict[str, Any] = {}
    for name, value in zip(header, row, strict=True):
        if value == "":
            continue
        given: str | None = None if value == _NULL else value
        parent, dot, key = name.partition(".")
        record[parent] = {key: given} if dot else given
    return record
