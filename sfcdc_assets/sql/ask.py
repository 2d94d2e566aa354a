"""Statements asked of the tables, and what is to be said beside their results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TextIO

import duckdb

from sfcdc_assets.lake.errors import NoCut
from sfcdc_assets.lake.event_table import event_table_names
from sfcdc_assets.lake.open_cut import newest_open_cuts
from sfcdc_assets.lake.snapshot_reads import first_read_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.asked_tables import AskedTables
from sfcdc_assets.sql.errors import QueryFailed
from sfcdc_assets.sql.reserved import quoting_remedy
from sfcdc_assets.sql.results import ROWS_SHOWN, Format, write
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts


def opened(root: str, at: datetime | None) -> AskedTables:
    """The tables of the warehouse at this root, at the newest cut of each channel. Raises `NoCut` where there is none,
    and no table that needs none."""
    warehouse = Warehouse(root)
    try:
        cuts = newest_open_cuts(root)
    except NoCut:
        if not event_table_names(warehouse):
            raise
        cuts = ()
    return AskedTables(TablesOfCuts(warehouse, cuts), at=at)


def ask(
    tables: AskedTables, text: str, form: Format, out: TextIO, width: int | None, at: datetime | None
) -> Iterator[str]:
    """Run the statements of a text and write their results; yields what a reader must know of them.

    Raises `QueryFailed` at the first that fails; the results before it are written.
    """
    try:
        for statement in tables.connection.extract_statements(text):
            if at is not None:
                yield from _what_is_not_known(tables, statement.query, at)
            result = tables.run(statement)
            if not _has_rows(statement, result):
                continue
            if not write(result, form, out, width):
                yield f"Only the first {ROWS_SHOWN:,} rows are shown; --format csv and --format json write all."
            out.flush()
    except duckdb.Error as error:
        raise QueryFailed(str(error), quoting_remedy(text, tables.names)) from error


def _has_rows(statement: duckdb.Statement, result: duckdb.DuckDBPyConnection) -> bool:
    """Whether the statement answers something: one that changes tables of the session reports only how many rows."""
    if statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]:
        return True
    return [column[0] for column in result.description or ()] not in ([], ["Count"], ["Success"])


def described(tables: AskedTables, at: datetime | None) -> str:
    """Which cut the tables are at."""
    parts = (
        f"{cut.channel} at position {cut.position}"
        + (f" (last commit {cut.commit_timestamp:%Y-%m-%d %H:%M:%S} UTC)" if cut.commit_timestamp else "")
        for cut in tables.tables.cuts
    )
    shown = f", shown as of {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    if not tables.tables.cuts:
        return "No change events are copied: the views are those of tables of events."
    return f"{len(tables.tables.entities)} entities of {', '.join(parts)}{shown}."


def _what_is_not_known(tables: AskedTables, statement: str, at: datetime) -> Iterator[str]:
    """An entity that was first read after the time was not watched then."""
    for entity in tables.asked_for(statement):
        first = first_read_at(tables.tables.warehouse, entity)
        if first is not None and at < first:
            yield (
                f"{entity} was first read at {first:%Y-%m-%d %H:%M:%S} UTC. Of {at:%Y-%m-%d %H:%M:%S} UTC it has only "
                "what nothing has changed since: earlier values and records deleted before are not known."
            )
