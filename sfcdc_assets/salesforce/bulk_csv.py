"""The CSV of a bulk result page as an Arrow table (docs/salesforce-streams.md, "Bulk API 2.0 queries").

Every value is quoted, quotes are doubled, newlines stand inside quotes, and null is the empty quoted value (Salesforce
cannot store an empty text, so nothing is lost). Datetimes end in Z, numbers may be scientific.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from sfcdc_assets.runtime.errors import enumerated
from sfcdc_assets.runtime.foreign_text import unicode_bytes
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.errors import RowsUnreadable, UnexpectedAnswer

_ID = "Id"
_LARGEST_HEADER_BYTES = 1024 * 1024
_BLOCK_BYTES = 64 * 1024 * 1024
"""Converted at once, or a row's where that is more: most pages have less."""
_CALENDAR = (dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC))
FEW_UNREADABLE_ROWS = 100
"""In one page: more of them, if they are most of its rows, are no record's fault: the page is refused as a whole."""
_CONVERSION_ERROR = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([a-z0-9_]+)")


@dataclass(frozen=True)
class CsvPage:
    """The rows that convert, and by Id why others do not."""

    table: pa.Table
    unreadable: dict[str, str] = field(default_factory=dict)


def read_page(source: IO[bytes], schema: pa.Schema, url: str) -> CsvPage:
    """All rows, the columns as in the page's header line; types by name from `schema`, text for other columns.

    An empty body is a table without rows and with the schema's columns. `url` names the page in errors.
    Bytes that are no UTF-8 become U+FFFD. A value that does not convert costs its row alone, if the page has an Id.
    What is reported of it names column and type but quotes no value, because values are the org's data. Raises
    `RowsUnreadable` where most rows have such a value, and `UnexpectedAnswer` for another page.
    """
    try:
        header, has_rows = _header(source)
    except csv.Error as error:
        raise UnexpectedAnswer(url, f"its header line is no CSV ({error})") from None
    if not header:
        return CsvPage(schema.empty_table())
    spelt = by_any_case(schema.names)
    header = [spelt.get(name.lower(), name) for name in header]
    if twice := [name for name, times in Counter(header).items() if times > 1]:
        raise UnexpectedAnswer(url, f"its header line names a column more than once: {enumerated(twice)}")
    wanted = pa.schema([(name, schema.field(name).type if name in schema.names else pa.string()) for name in header])
    if not has_rows:
        return CsvPage(wanted.empty_table())
    try:
        return CsvPage(_typed(source, wanted))
    except pa.ArrowInvalid as error:
        if _ID not in header:
            raise UnexpectedAnswer(url, _described(str(error), header)) from None
    source.seek(0)
    raw = source.read()
    source = io.BytesIO(unicode_bytes(raw))
    try:
        if source.getbuffer() != raw:
            with suppress(pa.ArrowInvalid):
                return CsvPage(_typed(source, wanted))
            source.seek(0)
        return _row_by_row(_typed(source, pa.schema([(name, pa.string()) for name in header])), wanted, url)
    except pa.ArrowInvalid as error:
        raise UnexpectedAnswer(url, _described(str(error), header)) from None


def _typed(source: IO[bytes], wanted: pa.Schema) -> pa.Table:
    source.readline(_LARGEST_HEADER_BYTES)
    table = pa.concat_tables([wanted.empty_table(), *(_block(each, wanted) for each in _whole_rows(source))])
    for number, (column, of) in enumerate(zip(table.columns, wanted, strict=True)):
        if not _is_sound(column, of.type):
            raise pa.ArrowInvalid(f"In CSV column #{number}: CSV conversion error to {str(of.type).partition('[')[0]}")
    return table


def _whole_rows(source: IO[bytes]) -> Iterator[bytes]:
    """Yield what is left of a page in blocks that end where a row does.

    pyarrow would cut it wherever a block of its own is full, and loses the second character of a value's line break
    when it cuts between the two (https://github.com/apache/arrow/issues/51368).
    """
    begun, read = b"", source.read(_BLOCK_BYTES)
    while read:
        following = source.read(_BLOCK_BYTES)
        block = begun + read
        end = _end_of_rows(block) if following else len(block)
        if end:
            yield block[:end]
        begun, read = block[end:], following


def _end_of_rows(block: bytes) -> int:
    """Return where the last whole row ends. Quotes within a value are doubled: it goes on after an odd number."""
    quotes, upper = block.count(b'"'), len(block)
    while (newline := block.rfind(b"\n", 0, upper)) >= 0:
        quotes -= block.count(b'"', newline, upper)
        if quotes % 2 == 0:
            return newline + 1
        upper = newline
    return 0


def _block(rows: bytes, wanted: pa.Schema) -> pa.Table:
    # Whole numbers are read as double and cast: 1E3 and 5.0 are whole numbers too, and a double holds an int exactly.
    read_as = {field.name: pa.float64() if pa.types.is_integer(field.type) else field.type for field in wanted}
    table = arrow_csv.read_csv(
        pa.BufferReader(rows),
        read_options=arrow_csv.ReadOptions(block_size=len(rows), use_threads=False, column_names=wanted.names),
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


def _is_sound(values: pa.ChunkedArray, type_: pa.DataType) -> bool:
    """Return whether Python, Arrow and Spark can all show what pyarrow read: finite numbers, the years 1 to 9999."""
    if pa.types.is_floating(type_):
        return pc.all(pc.is_finite(values), min_count=0).as_py() is not False
    if not pa.types.is_temporal(type_):
        return True
    first, last = (moment.date() if pa.types.is_date(type_) else moment for moment in _CALENDAR)
    bounds = pc.min_max(values)
    inside = pc.and_(
        pc.greater_equal(bounds["min"], pa.scalar(first, type_)), pc.less_equal(bounds["max"], pa.scalar(last, type_))
    )
    return inside.as_py() is not False


def _row_by_row(texts: pa.Table, wanted: pa.Schema, url: str) -> CsvPage:
    """Convert a page in halves, down to the rows that do not convert. Raises `RowsUnreadable` for too many of them."""
    most = max(FEW_UNREADABLE_ROWS, texts.num_rows // 2)
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
            if len(unreadable) == most:
                raise RowsUnreadable(url, most, texts.num_rows, _described(str(error), wanted.names)) from None
            if middle:
                waiting += [some.slice(middle), some.slice(0, middle)]
            else:
                unreadable[some[_ID][0].as_py()] = _described(str(error), wanted.names)
    return CsvPage(pa.concat_tables([wanted.empty_table(), *converted]), unreadable)


def _header(source: IO[bytes]) -> tuple[list[str], bool]:
    """Return the column names in the first line, and whether anything follows; the source is put back to its start."""
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
