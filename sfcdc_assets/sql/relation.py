"""One version of a table as a SELECT over exactly its files.

Files that were written before a column was added lack it, and a table may have no files at all. So the files are united
by name with an empty row of all columns, which gives each its type and fills what is missing with null.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sfcdc_assets.lake.readable_table import FilesOfPartition, ReadableTable
from sfcdc_assets.sql.text import name, sql_type, value, values

_OF_A_PATTERN = re.compile(r"[*?\[]")

Location = Callable[[str, str], str]
"""A table's name and the path of one of its files -> where DuckDB finds the file."""


def relation(table: ReadableTable, location: Location) -> str:
    """The rows that count, with the columns in the table's order."""
    columns = ", ".join(f"CAST(NULL AS {sql_type(field.type)}) AS {name(field.name)}" for field in table.schema)
    parts = [f"SELECT {columns} WHERE false", *(_part(table.name, each, location) for each in table.files)]
    chosen = ", ".join(map(name, table.schema.names))
    where = f" WHERE {table.condition}" if table.condition else ""
    return f"SELECT {chosen} FROM ({' UNION ALL BY NAME '.join(parts)}){where}"


def _part(table: str, files: FilesOfPartition, location: Location) -> str:
    found = values(literally(location(table, path)) for path in files.paths)
    read = f"read_parquet({found}, union_by_name = true, hive_partitioning = false)"
    constants = "".join(f", {value(text)} AS {name(column)}" for column, text in files.values.items())
    return f"SELECT *{constants} FROM {read}"


def literally(path: str) -> str:
    """A path in which DuckDB finds no pattern: a folder may be called `[old]`."""
    return _OF_A_PATTERN.sub(lambda found: f"[{found.group()}]", path)
