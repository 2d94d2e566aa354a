"""The CSV of a bulk result page as an Arrow table (docs/salesforce-streams.md, "Bulk API 2.0 queries").

Every value is quoted, quotes are doubled, newlines stand inside quotes, and null is the empty quoted value (Salesforce
cannot store an empty text, so nothing is lost). Datetimes end in Z, numbers may be scientific.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from sfcdc_assets.salesforce.errors import UnexpectedAnswer

_ID = "Id"
_LARGEST_HEADER_BYTES = 1024 * 1024
_LARGEST_ROW_BYTES = 16 * 1024 * 1024
"""pyarrow needs a row to fit into one block. A record's text fields hold at most some million characters together."""
MOST_UNREADABLE_ROWS = 100
"""In one page: more of them are no record's fault, and the page is refused as a whole."""
_CONVERSION_ERROR = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([a-z0-9_]+)")


@dataclass(frozen=True)
class CsvPage:
    """The rows that convert, and by Id why others do not."""

    table: pa.Table
    unreadable: dict[str, str] = field(default_factory=dict)


def read_page(source: IO[bytes], schema: pa.Schema, url: str) -> CsvPage:
    """All rows, the columns as in the page's header line; types by name from `schema`, text for other columns.

    An empty body is a table without rows and with the schema's columns. `url` names the page in errors.
    A value that does not convert costs its row alone, if the page has an Id. What is reported of it names column and
    type but quotes no value, because values are the org's data. Raises `UnexpectedAnswer` for another page.
    """
    header, has_rows = _header(source)
    if not header:
        return CsvPage(schema.empty_table())
    wanted = pa.schema([(name, schema.field(name).type if name in schema.names else pa.string()) for name in header])
    if not has_rows:
        return CsvPage(wanted.empty_table())
    try:
        return CsvPage(_typed(source, wanted))
    except pa.ArrowInvalid as error:
        if _ID not in header:
            raise UnexpectedAnswer(url, _described(str(error), header)) from None
    try:
        source.seek(0)
        return _row_by_row(_typed(source, pa.schema([(name, pa.string()) for name in header])), wanted)
    except pa.ArrowInvalid as error:
        raise UnexpectedAnswer(url, _described(str(error), header)) from None


def _typed(source: IO[bytes], wanted: pa.Schema) -> pa.Table:
    # Whole numbers are read as double and cast: 1E3 and 5.0 are whole numbers too, and a double holds an int exactly.
    read_as = {field.name: pa.float64() if pa.types.is_integer(field.type) else field.type for field in wanted}
    table = arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(block_size=_LARGEST_ROW_BYTES, use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=read_as,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            true_values=["true"],
            false_values=["false"],
            timestamp_parsers=[arrow_csv.ISO8601],
        ),
    )
    return table.cast(wanted)


def _row_by_row(texts: pa.Table, wanted: pa.Schema) -> CsvPage:
    """Convert a page in halves, down to the rows that do not convert. Raises `pa.ArrowInvalid` for too many of them."""
    converted: list[pa.Table] = []
    unreadable: dict[str, str] = {}
    waiting = [texts]
    while waiting:
        some = waiting.pop()
        written = io.BytesIO()
        arrow_csv.write_csv(some, written, arrow_csv.WriteOptions(quoting_style="all_valid"))
        written.seek(0)
        try:
            converted.append(_typed(written, wanted))
        except pa.ArrowInvalid as error:
            middle = some.num_rows // 2
            if len(unreadable) == MOST_UNREADABLE_ROWS:
                raise
            if middle:
                waiting += [some.slice(middle), some.slice(0, middle)]
            else:
                unreadable[some[_ID][0].as_py()] = _described(str(error), wanted.names)
    return CsvPage(pa.concat_tables([wanted.empty_table(), *converted]), unreadable)


def _header(source: IO[bytes]) -> tuple[list[str], bool]:
    """The column names in the first line, and whether anything follows; the source is put back to its start."""
    line = source.readline(_LARGEST_HEADER_BYTES)
    follows = source.read(1)
    source.seek(0)
    return next(csv.reader([line.decode("utf-8", errors="replace")]), []), bool(follows)


def _described(problem: str, header: list[str]) -> str:
    conversion = _CONVERSION_ERROR.search(problem)
    if conversion is not None:
        column, type_ = int(conversion.group(1)), conversion.group(2)
        name = header[column] if column < len(header) else f"#{column}"
        return f"column {name} holds a value that is no {type_}"
    if "CSV parse error" in problem:
        return "the page is not CSV of the columns in its first line"
    return "a column holds a number that does not fit its type"
