"""Statements asked of the tables, and what is to be said beside their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TextIO

import duckdb
from pyarrow import fs

from sfcdc_assets.lake.errors import EntitiesLag, NoCut, NotYetInCut
from sfcdc_assets.lake.tables.event_table import event_table_names
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.tables.snapshot_reads import first_read_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.sql.cut_connection import AskedTables
from sfcdc_assets.sql.errors import NotAQuery, QueryFailed
from sfcdc_assets.sql.results import ROWS_SHOWN, Format, write
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import literally, values
from sfcdc_assets.sql.warehouse_files import PROTOCOL


def quoting_remedy(statement: str, names: Iterable[str]) -> str:
    """Return what to do where a statement names such a view without quotes; empty where it does not."""
    found = [each for each in names if re.search(rf'(?i)\b(?:from|join)\s+{re.escape(each)}\b(?!")', statement)]
    reserved = [each for each in found if each in RESERVED]
    listed = " and ".join(f'"{each}"' for each in reserved)
    return f"Write {listed} in double quotes: the name is a word of SQL." if reserved else ""


RESERVED = frozenset({"case", "order", "group", "table", "column", "end", "grant", "references", "using", "select"})


_COMMENTS = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)+", re.DOTALL)
_EXPLAIN = re.compile(r"explain(\s+analyze)?(\s*\([^)]*\))?\s", re.IGNORECASE)
_PIVOT = re.compile(r"(pivot|pivot_wider|unpivot|from|with|select)\b", re.IGNORECASE)


def lock(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    """Let the connection read the folders of the warehouse's tables and nothing else, and change no setting again."""
    folders = [f"{PROTOCOL}://"]
    if warehouse.is_local:
        found = warehouse.filesystem("").get_file_info(fs.FileSelector("", allow_not_found=True))
        names = (each.base_name for each in found if each.type is fs.FileType.Directory)
        paths = [f"{warehouse.folder}/{name}" for name in names if not name.startswith(".")]
        folders = list(dict.fromkeys([*paths, *map(literally, paths)]))
    connection.execute(f"SET allowed_directories = {values(folders)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def is_query(statement: duckdb.Statement) -> bool:
    """Return whether it answers a question and does nothing else. `EXPLAIN ANALYZE` does what it explains."""
    text = _without_comments(statement.query)
    if statement.type is duckdb.StatementType.EXPLAIN:
        explained = _EXPLAIN.match(text)
        inner = duckdb.extract_statements(text[explained.end() :]) if explained else []
        return len(inner) == 1 and is_query(inner[0])
    if statement.type is duckdb.StatementType.MULTI:  # a PIVOT, which looks for its columns first
        return _PIVOT.match(text.lstrip("( ")) is not None
    return statement.type is duckdb.StatementType.SELECT


def _without_comments(text: str) -> str:
    """Without those at its beginning."""
    comments = _COMMENTS.match(text)
    return text[comments.end() :] if comments else text


def opened(root: str, at: datetime | None, *, strict: bool = False, labels: bool = False) -> AskedTables:
    """Return the tables of the warehouse at this root, at the newest cut of each channel. Raises `NoCut` where there is
    none, and no table that needs none."""
    warehouse = Warehouse(root)
    try:
        cuts = cuts_at(warehouse)
    except NoCut:
        if not event_table_names(warehouse):
            raise
        cuts = ()
    tables = AskedTables(TablesOfCuts(warehouse, cuts, strict=strict, labels=labels), at=at)
    lock(tables.connection, warehouse)
    return tables


def ask(
    tables: AskedTables, text: str, form: Format, out: TextIO, width: int | None, at: datetime | None
) -> Iterator[str]:
    """Run the statements of a text and write their results; yields what a reader must know of them.

    Raises `QueryFailed` at the first that fails, `NotAQuery`, `EntitiesLag`, `CutGone` and `TableDamaged`; the results
    before it are written.
    """
    try:
        for statement in tables.connection.extract_statements(text):
            if not is_query(statement):
                raise NotAQuery(statement.query)
            lagging = [tables.tables.lagging[entity] for entity in tables.lagging_in(statement.query)]
            if tables.tables.strict and lagging:
                raise EntitiesLag(lagging)
            yield from (f"{each}." for each in lagging if at is None or each.as_of is None or each.as_of < at)
            if at is not None:
                yield from _what_is_not_known(tables, statement.query, at)
            with tables.reading():
                is_whole = write(tables.run(statement), form, out, width)
            if not is_whole:
                yield f"Only the first {ROWS_SHOWN:,} rows are shown; --format csv and --format json write all."
            out.flush()
    except duckdb.Error as error:
        waiting = tables.not_yet_in(text) if isinstance(error, duckdb.CatalogException) else ()
        said = str(NotYetInCut(waiting)) if waiting else str(error)
        raise QueryFailed(said, quoting_remedy(text, tables.names)) from error


def described(tables: AskedTables, at: datetime | None) -> str:
    """Say which cut the tables are at."""
    parts = (
        f"{cut.channel} at position {cut.position}"
        + (f" (last commit {cut.commit_timestamp:%Y-%m-%d %H:%M:%S} UTC)" if cut.commit_timestamp else "")
        for cut in tables.tables.cuts
    )
    shown = f", shown as of {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    if not tables.tables.cuts:
        return "No change events are copied: the views are those of tables of events."
    lagging = "".join(f"\n{each}." for each in tables.tables.lagging.values())
    return f"{counted(len(tables.tables.entities), 'entity')} of {', '.join(parts)}{shown}.{lagging}"


def _what_is_not_known(tables: AskedTables, statement: str, at: datetime) -> Iterator[str]:
    """Yield what is not known: an entity that was first read after the time was not watched then, and a polled one has
    not been asked since its last poll."""
    for entity in tables.asked_for(statement):
        polled_until = tables.tables.polled_until(entity)
        if polled_until is not None and polled_until < at:
            yield (
                f"{entity} is polled, and shown as of {polled_until:%Y-%m-%d %H:%M:%S} UTC: what was changed between "
                f"then and {at:%Y-%m-%d %H:%M:%S} UTC is not known yet."
            )
        first = first_read_at(tables.tables.warehouse, entity)
        if first is not None and at < first:
            yield (
                f"{entity} was first read at {first:%Y-%m-%d %H:%M:%S} UTC. Of {at:%Y-%m-%d %H:%M:%S} UTC it has only "
                "what nothing has changed since, and what `sfcdc history-before` found: other values, and records "
                "deleted before, are not known."
            )
