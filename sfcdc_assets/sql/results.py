"""The rows of a result as a table for people, as CSV or as JSON for programs. Times are UTC.

None of them commands a terminal: tables show escapes, JSON has its own for them. CSV for programs has the values as
they are; in CSV for a spreadsheet no text is a formula.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TextIO
from uuid import UUID

import duckdb
from rich.cells import cell_len

from sfcdc_assets.runtime.foreign_text import json_text, shortened, spreadsheet_text, terminal_text

ROWS_AT_ONCE = 10_000
ROWS_SHOWN = 1_000
"""Of a table for people; CSV and JSON have all."""
_LONGEST_CELL = 60
_WIDEST_LINE = 160
"""Of a table that is no terminal's: a file or a log that a person reads later has no width to ask for."""
_SPECIAL = re.compile(r'[",\r\n]')
_NULL = "NULL"


class Format(StrEnum):
    """How a result is written."""

    TABLE = "table"
    CSV = "csv"
    """The values as they are; a terminal gets them as `terminal_text`."""
    SPREADSHEET = "spreadsheet"
    """CSV in which no text is a formula."""
    JSON = "json"


def write(result: duckdb.DuckDBPyConnection, form: Format, out: TextIO, width: int | None) -> bool:
    """Write the result; whether all of it was. `width` of a terminal; None where there is none, and values stay
    whole."""
    names = _distinct([str(column[0]) for column in result.description or ()])
    if form is Format.JSON:
        _write_json(names, _rows(result), out)
    elif form in (Format.CSV, Format.SPREADSHEET):
        cell = _spreadsheet_cell if form is Format.SPREADSHEET else _csv_cell
        shown = terminal_text if out.isatty() else str
        out.write(shown(_csv_line(names)))
        out.writelines(shown(_csv_line([cell(each) for each in row])) for row in _rows(result))
    else:
        rows = result.fetchmany(ROWS_SHOWN + 1)
        _write_table(names, [[_shown(each) for each in row] for row in rows[:ROWS_SHOWN]], out, width)
        return len(rows) <= ROWS_SHOWN
    return True


def _rows(result: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while rows := result.fetchmany(ROWS_AT_ONCE):
        yield from rows


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the column names, a second one of the same name with a number, because JSON knows each name once."""
    found: list[str] = []
    for wanted in names:
        name, number = wanted, 1
        while name in found:
            name, number = f"{wanted}_{number}", number + 1
        found.append(name)
    return found


def _write_json(names: Sequence[str], rows: Iterator[Sequence[Any]], out: TextIO) -> None:
    """Write one array, an object to a line."""
    before = "[\n"
    for row in rows:
        out.write(before + json_text(json.dumps(dict(zip(names, map(plain, row), strict=True)), ensure_ascii=False)))
        before = ",\n"
    out.write("[]\n" if before == "[\n" else "\n]\n")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times and dates as ISO 8601, bytes as hex, no number that JSON lacks."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return _utc(value).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {str(plain(key)): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case UUID() | timedelta():
            return str(value)
        case _:
            return str(value)


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _csv_cell(value: Any) -> str:
    """Null is an empty cell, as in Salesforce's own CSV."""
    found = plain(value)
    if found is None:
        return ""
    if isinstance(found, bool):
        return "true" if found else "false"
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _spreadsheet_cell(value: Any) -> str:
    return spreadsheet_text(value) if isinstance(value, str) else _csv_cell(value)


def _csv_line(cells: Sequence[str]) -> str:
    """RFC 4180, with a line feed at the end; Python's own writer leaves a carriage return within a value unquoted."""
    quoted = ['"' + each.replace('"', '""') + '"' if _SPECIAL.search(each) else each for each in cells]
    return (",".join(quoted) or '""') + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, datetime) and value.tzinfo:
        return f"{_utc(value):%Y-%m-%d %H:%M:%S}" + (f".{value.microsecond // 1000:03}" if value.microsecond else "")
    return _csv_cell(value)


def _write_table(names: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO, width: int | None) -> None:
    """Columns side by side if they fit, otherwise one block a row, as psql does when asked to expand. Each value is on
    one line; on a terminal, long ones are cut."""
    longest_cell = None if width is None else _LONGEST_CELL
    rows = [[_one_line(each, longest_cell) for each in row] for row in rows]
    widths = [max(map(cell_len, (name, *(row[number] for row in rows)))) for number, name in enumerate(names)]
    if len(names) == 1 or sum(widths) + 2 * (len(widths) - 1) <= (width or _WIDEST_LINE):
        for line in (names, ["─" * each for each in widths], *rows):
            out.write("  ".join(_padded(cell, widths[at]) for at, cell in enumerate(line)).rstrip() + "\n")
    else:
        longest = max(map(cell_len, names))
        for number, row in enumerate(rows, 1):
            out.write(f"── row {number} " + "─" * max(0, longest - 6) + "\n")
            out.writelines(f"{_padded(name, longest)}  {cell}\n" for name, cell in zip(names, row, strict=True))
    if width is not None:
        out.write(f"({len(rows):,} row{'' if len(rows) == 1 else 's'})\n")


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _one_line(text: str, most: int | None) -> str:
    line = terminal_text(" ".join(text.splitlines()))
    return line if most is None else shortened(line, most)
