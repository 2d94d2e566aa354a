"""`sfcdc views`: the views of `sfcdc sql` for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.cli.sql_extra import require_duckdb
from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.open_cut import newest_open_cuts
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts


@stops_at_once
def views(
    duckdb: Annotated[Path, typer.Option("--duckdb", metavar="FILE", help="Write the views to this DuckDB file.")],
) -> None:
    """Write the views of `sfcdc sql` to a DuckDB file that other tools open.

    The views show the tables at the newest consistent cut, and name its files. Maintenance deletes these when the cut
    expires (SFCDC_CUT_RETENTION_DAYS), so write the file again after a sync. Other things in the file stay.
    """
    require_duckdb("`sfcdc views`")
    from sfcdc_assets.sql.views_file import write_views  # noqa: PLC0415 - only with the extra

    settings = load_settings()
    tables = TablesOfCuts(Warehouse(settings.warehouse), newest_open_cuts(settings.warehouse))
    written = write_views(tables, duckdb)
    typer.echo(
        f"{written} views of {len(tables.entities)} entities are in {duckdb}. They can be read for "
        f"{settings.cut_retention_days} days; write them again after a sync."
    )
