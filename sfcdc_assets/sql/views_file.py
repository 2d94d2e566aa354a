"""The views in a DuckDB file, for tools that open one: dbt, BI, notebooks.

Pinned views are of one cut, and name its files. Those are there for as long as the cut can be opened, so the file is to
be written again before that, or after each sync. Live views follow the newest cut by themselves (`live_views`).

Either way a new file takes the place of the old one, at once: a tool that holds the old one open goes on reading it,
and sees the new one when it opens it again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import duckdb

from sfcdc_assets.sql.catalogue import described_views
from sfcdc_assets.sql.cut_connection import AskedTables
from sfcdc_assets.sql.cut_links import CutLinks
from sfcdc_assets.sql.errors import FileNotWritten
from sfcdc_assets.sql.live_views import LiveTables
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import name, value
from sfcdc_assets.sql.warehouse_files import location_for_others

MARK = "(written by `sfcdc views`)"
_ALL = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal"
_OURS = f"{_ALL} AND comment LIKE {value('%' + MARK)}"


def write_views(tables: TablesOfCuts, file: Path) -> int:
    """Write pinned views in the place of those that were written before; returns how many there are. Whatever else is
    in the file stays. Raises `FileNotWritten`, `CutGone`, `TableDamaged`."""

    def make(connection: duckdb.DuckDBPyConnection) -> None:
        find = partial(location_for_others, tables.warehouse)
        AskedTables(tables, connection=connection, find=find).make_all()

    with _naming(file):
        return _swap(file, tables, make)


def write_live_views(tables: TablesOfCuts, file: Path, now: datetime) -> int:
    """Write live views or, where the file has them, only have them show the newest cut; returns how many there are. The
    links that they follow are in a folder beside the file, which is named after it. Raises `FileNotWritten`."""
    if not tables.warehouse.is_local:
        said = f"live views follow links to the files of a folder, and {tables.warehouse.root} is an object store"
        raise FileNotWritten(str(file), said, "Write pinned views after each sync instead.")
    links = CutLinks(file.with_name(f"{file.name}.cuts").absolute())
    if "=" in str(links.folder):  # which DuckDB would take for the name of a column and its value
        raise FileNotWritten(str(file), f"the path {links.folder} has an equals sign", "Name another folder.")
    with _naming(file):
        live = LiveTables(tables)
        links.show(tables.warehouse, live.all, tables.cuts, now)
        statements = [each.create for each in live.views(links)]
        noted, text = links.folder / "views.sql", ";\n".join([*statements, ""])
        if not (file.exists() and noted.exists() and noted.read_text() == text):
            _swap(file, tables, lambda connection: [connection.execute(each) for each in statements])
            noted.write_text(text)
        return sum(each.startswith("CREATE OR REPLACE VIEW") for each in statements)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    try:
        if not file.parent.is_dir():
            raise FileNotWritten(str(file), f"there is no folder {file.parent}")
        yield
    except (duckdb.Error, OSError) as error:
        raise FileNotWritten(str(file), str(error)) from error


def _swap(file: Path, tables: TablesOfCuts, make: Callable[[duckdb.DuckDBPyConnection], object]) -> int:
    """Make the views in a copy of the file without those of before, which then takes its place. Raises `duckdb.Error`,
    also where another program has the file open for writing: what it writes would be lost."""
    beside = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        if file.exists():
            with duckdb.connect(str(file), read_only=True):
                shutil.copyfile(file, beside)
        with duckdb.connect(str(beside)) as connection:
            for before in _views(connection, _OURS):
                connection.execute(f"DROP VIEW {name(before)}")
            others = _views(connection, _ALL)
            make(connection)
            made = [each for each, text in _views(connection, _ALL).items() if others.get(each) != text]
            _describe(connection, tables, made)
        beside.replace(file)
        return len(made)
    finally:
        for left in (beside, beside.with_name(f"{beside.name}.wal")):
            left.unlink(missing_ok=True)


def _views(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """Return their names with what creates them."""
    return dict(connection.execute(query).fetchall())


def _describe(connection: duckdb.DuckDBPyConnection, tables: TablesOfCuts, made: Iterable[str]) -> None:
    """Write comments that tools show; each of the views has the mark."""
    described = {view.name: view for view in described_views(tables)}
    for view in made:
        about = f"{described[view].description} " if view in described else ""
        connection.execute(f"COMMENT ON VIEW {name(view)} IS {value(about + MARK)}")
        for column in described[view].columns if view in described else ():
            if column.description:
                place = f"{name(view)}.{name(column.name)}"
                connection.execute(f"COMMENT ON COLUMN {place} IS {value(column.description)}")
