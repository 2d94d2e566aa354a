"""The CSV of a bulk result page as an Arrow table (facts section 8, Bulk 2.0, CSV).

Every value is quoted, quotes are doubled, newlines stand inside quotes, and null is the empty quoted value (Salesforce
cannot store an empty text, so nothing is lost). Datetimes end in Z, numbers may be scientific.
"""

from __future__ import annotations

import csv
import re
from typing import IO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from sfcdc_assets.salesforce.errors import UnexpectedAnswer

_LARGEST_HEADER_BYTES = 1024 * 1024
_LARGEST_ROW_BYTES = 16 * 1024 * 1024
"""pyarrow needs a row to fit into one block. A record's text fields hold at most some million characters together."""
_CONVERSION_ERROR = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([a-z0-9_]+)")


def read_page(source: IO[bytes], schema: pa.Schema, url: str) -> pa.Table:
    """All rows, the columns as in the page's header line; types by name from `schema`, text for other columns.

    An empty body is a table without rows and with the schema's columns. `url` names the page in errors.
    Raises `UnexpectedAnswer`; it names columns and types but quotes no value, because values are the org's data.
    """
    header, has_rows = _header(source)
    if not header:
        return schema.empty_table()
    # Whole numbers are read as double and cast: 1E3 and 5.0 are whole numbers too, and a double holds an int exactly.
    wanted = {name: schema.field(name).type if name in schema.names else pa.string() for name in header}
    wanted_schema = pa.schema(list(wanted.items()))
    if not has_rows:
        return wanted_schema.empty_table()
    read_as = {name: pa.float64() if pa.types.is_integer(type_) else type_ for name, type_ in wanted.items()}
    try:
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
        return table.cast(wanted_schema)
    except pa.ArrowInvalid as error:
        raise UnexpectedAnswer(url, _told(str(error), header)) from None


def _header(source: IO[bytes]) -> tuple[list[str], bool]:
    """The column names in the first line, and whether anything follows; the source is put back to its start."""
    line = source.readline(_LARGEST_HEADER_BYTES)
    follows = source.read(1)
    source.seek(0)
    return next(csv.reader([line.decode("utf-8", errors="replace")]), []), bool(follows)


def _told(problem: str, header: list[str]) -> str:
    conversion = _CONVERSION_ERROR.search(problem)
    if conversion is not None:
        column, type_ = int(conversion.group(1)), conversion.group(2)
        name = header[column] if column < len(header) else f"#{column}"
        return f"column {name} holds a value that is no {type_}"
    if "CSV parse error" in problem:
        return "the page is not CSV of the columns in its first line"
    return "a column holds a number that does not fit its type"
