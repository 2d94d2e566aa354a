"""`sfcdc views`: the views of `sfcdc sql` for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfcdc_assets.cli.sql_extra import Labels, require_duckdb
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts


@stops_at_once
def views(
    *,
    duckdb: Annotated[Path, typer.Option("--duckdb", metavar="FILE", help="Write the views to this DuckDB file.")],
    labels: Labels = False,
) -> None:
    """Write the views of `sfcdc sql` to a DuckDB file that other tools open.

    The views show the tables at the newest consistent cut, and name its files. Maintenance deletes these when the cut
    is forgotten (SFCDC_CUT_BATCH_HOURS), so write the file again after a sync. Other things in the file stay.
    """
    require_duckdb("`sfcdc views`")
    from sfcdc_assets.sql.views_file import write_views  # noqa: PLC0415 - only with the extra

    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    tables = TablesOfCuts(warehouse, cuts_at(warehouse), labels=labels)
    written = write_views(tables, duckdb)
    say(
        f"{counted(written, 'view')} of {counted(len(tables.entities), 'entity')} are in {duckdb}. They can be read "
        f"for {settings.cut_batch_hours * 60:g} minutes at least; write them again after a sync."
    )
    for each in tables.lagging.values():
        say(f"{each}.", err=True)
