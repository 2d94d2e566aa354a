"""`sfcdc views`: the views of `sfcdc sql` for other tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.options import Labels
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.sql.dialects import Dialect, script
from sfcdc_assets.sql.kept_views import require_duckdb
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts

UNITY_SERVER = "http://localhost:8080"


@stops_at_once
def views(
    *,
    duckdb: Annotated[
        Path | None, typer.Option("--duckdb", metavar="FILE", help="Write views of the newest cut to this DuckDB file.")
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option("--live", metavar="FILE", help="Write views that follow the newest cut to this DuckDB file."),
    ] = None,
    dialect: Annotated[
        Dialect | None,
        typer.Option("--dialect", help="Print the statements that create the views in another engine."),
    ] = None,
    schema: Annotated[
        str, typer.Option(metavar="NAME", help="With --dialect: put tables and views in this schema.")
    ] = "salesforce",
    glue: Annotated[
        str | None,
        typer.Option("--glue", metavar="DATABASE", help="Register the Delta tables in this database of AWS Glue."),
    ] = None,
    unity: Annotated[
        str | None,
        typer.Option(
            "--unity", metavar="CATALOG.SCHEMA", help="Register the Delta tables in this schema of a Unity Catalog."
        ),
    ] = None,
    labels: Labels = False,
) -> None:
    """Write the views of `sfcdc sql` for other tools: to a DuckDB file, or as SQL for another engine.

    --duckdb pins the views to the newest consistent cut and names its files. Maintenance deletes these when the cut is
    forgotten (SFCDC_CUT_BATCH_HOURS), so write the file again after a sync, or set SFCDC_VIEWS_FILE.

    --live writes views that look for the newest cut when they are asked, so that they do not expire. Each call, and
    with SFCDC_LIVE_VIEWS_FILE each sync, tells them of it. They follow links beside the file, to a warehouse in a
    folder.

    Either file takes the place of the old one at once: who has that open goes on reading it. Other things in it stay.

    --dialect prints SQL that registers the Delta tables and creates `account`, `account_history`, `account_as_of` and
    `account_changes_after` in spark (Databricks too), trino, snowflake or postgres (with pg_duckdb). Such engines read
    the newest version of each table, not one cut. --glue lets Athena and others find the tables by name, --unity what
    asks a Unity Catalog: UNITY_CATALOG_SERVER is its address, by default http://localhost:8080, and UNITY_CATALOG_TOKEN
    a token, where it wants one.
    """
    if duckdb is None and live is None and dialect is None and glue is None and unity is None:
        raise typer.BadParameter("say which views.", param_hint="--duckdb, --live, --dialect, --glue or --unity")
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    tables = TablesOfCuts(warehouse, cuts_at(warehouse), labels=labels)
    if dialect is not None:
        say(script(tables, dialect, schema), nl=False)
    if glue is not None:
        _register_in_glue(warehouse, tables, glue)
    if unity is not None:
        _register_in_unity(warehouse, tables, unity)
    if duckdb is not None or live is not None:
        _write(tables, duckdb, live, settings)
    for each in tables.lagging.values():
        say(f"{each}.", err=True)


def _register_in_glue(warehouse: Warehouse, tables: TablesOfCuts, database: str) -> None:
    from sfcdc_assets.sql.glue_catalog import register_all  # noqa: PLC0415 - rarely

    say(f"{counted(register_all(warehouse, tables, database), 'table')} are in the Glue database {database}.")


def _register_in_unity(warehouse: Warehouse, tables: TablesOfCuts, schema: str) -> None:
    from sfcdc_assets.sql.unity_catalog import register_all  # noqa: PLC0415 - rarely

    server, token = os.environ.get("UNITY_CATALOG_SERVER", UNITY_SERVER), os.environ.get("UNITY_CATALOG_TOKEN")
    count = register_all(warehouse, tables, schema, server, token)
    say(f"{counted(count, 'table')} are in the Unity Catalog schema {schema}.")


def _write(tables: TablesOfCuts, pinned: Path | None, live: Path | None, settings: Settings) -> None:
    require_duckdb("`sfcdc views`")
    from sfcdc_assets.sql.views_file import write_live_views, write_views  # noqa: PLC0415 - only with the extra

    entities = counted(len(tables.entities), "entity")
    if pinned is not None:
        written = write_views(tables, pinned)
        say(
            f"{counted(written, 'view')} of {entities} are in {pinned}. They can be read for "
            f"{settings.cut_batch_hours * 60:g} minutes at least; write them again after a sync."
        )
    if live is not None:
        written = write_live_views(tables, live, clock.now())
        say(f"{counted(written, 'view')} of {entities} are in {live}. They follow each cut that is reported to them.")
