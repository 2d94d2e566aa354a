"""The views in a DuckDB file, for tools that open one: dbt, BI, notebooks.

They are of one cut, and name its files. Those are there for as long as the cut can be opened
(`SFCDC_CUT_RETENTION_DAYS`), so the file is to be written again before that, or after each sync.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb

from sfcdc_assets.sql.catalogue import described_views
from sfcdc_assets.sql.cut_connection import AskedTables
from sfcdc_assets.sql.errors import FileNotWritten
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import name, value
from sfcdc_assets.sql.warehouse_files import location_for_others

MARK = "(written by `sfcdc views`)"
_OURS = f"SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment LIKE {value('%' + MARK)}"


def write_views(tables: TablesOfCuts, file: Path) -> int:
    """Write them, in one transaction, in the place of those that were written before; returns how many there are.
    Whatever else is in the file stays. Raises `FileNotWritten`."""
    try:
        if not file.parent.is_dir():
            raise FileNotWritten(str(file), f"there is no folder {file.parent}")
        connection = duckdb.connect(str(file))
        with AskedTables(tables, connection=connection, find=partial(location_for_others, tables.warehouse)) as asked:
            connection.execute("BEGIN")
            for (before,) in connection.execute(_OURS).fetchall():
                connection.execute(f"DROP VIEW {name(before)}")
            asked.make_all()
            _describe(connection, tables)
            made = connection.execute(_OURS).fetchall()
            connection.execute("COMMIT")
            return len(made)
    except (duckdb.Error, OSError) as error:
        raise FileNotWritten(str(file), str(error)) from error


def _describe(connection: duckdb.DuckDBPyConnection, tables: TablesOfCuts) -> None:
    """Comments that tools show; every view has the mark."""
    described = {view.name: view for view in described_views(tables)}
    for (view,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
        about = f"{described[view].description} " if view in described else ""
        connection.execute(f"COMMENT ON VIEW {name(view)} IS {value(about + MARK)}")
        for column in described[view].columns if view in described else ():
            if column.description:
                place = f"{name(view)}.{name(column.name)}"
                connection.execute(f"COMMENT ON COLUMN {place} IS {value(column.description)}")
