"""`sfcdc dbt-sources`: the views as a source of dbt."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets.cli.sql_extra import Labels
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.sql.catalogue import described_views, sources_yml
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts


def dbt_sources(
    *,
    source: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Give the source this name in dbt.")
    ] = "salesforce",
    schema: Annotated[str, typer.Option(metavar="NAME", help="Say that the views are in this schema.")] = "main",
    database: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Say that the views are in this database, if it is not that of the dbt profile."
        ),
    ] = None,
    labels: Labels = False,
) -> None:
    """Print a dbt `sources.yml` of the views that `sfcdc views` writes, with descriptions of every column.

    Descriptions are the labels of the fields in Salesforce, and what docs/tables.md says of the columns beside them.
    Give `--labels` here if `sfcdc views` was given it.
    """
    warehouse = Warehouse(load_settings().warehouse)
    tables = TablesOfCuts(warehouse, cuts_at(warehouse), labels=labels)
    say(sources_yml(described_views(tables), source=source, schema=schema, database=database), nl=False)
