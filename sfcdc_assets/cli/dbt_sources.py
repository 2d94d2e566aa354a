"""`sfcdc dbt-sources`: the views as a source of dbt."""

from __future__ import annotations

from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.options import Labels
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.setting_values import this_org
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.sql.catalogue import DbtSource, described_views, sources_yml
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
    key_prefix: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Begin the keys of the entities' assets in Dagster with this, such as salesforce/emea.",
        ),
    ] = None,
    stale_hours: Annotated[
        int, typer.Option(metavar="N", min=1, help="Let dbt warn when no change has come for so many hours.")
    ] = 24,
    labels: Labels = False,
) -> None:
    """Print a dbt `sources.yml` of the views that `sfcdc views` writes, with descriptions of every column.

    dagster-dbt reads from it that `account` is the asset `salesforce/account`: models hang on the asset of the entity
    that they read. `account_history` has a key of its own, because dagster-dbt refuses one that two sources have; the
    dbt project in examples/ reads both views by one source.

    Descriptions are the labels of the fields in Salesforce, and what docs/tables.md says of the columns beside them.
    Give `--labels` here if `sfcdc views` was given it.
    """
    warehouse = Warehouse(load_settings().warehouse)
    tables = TablesOfCuts(warehouse, cuts_at(warehouse), labels=labels)
    org = this_org()
    prefix = key_prefix or ("salesforce" if org is None else f"salesforce/{org}")
    described = DbtSource(source, schema, database, tuple(prefix.split("/")), stale_hours)
    say(sources_yml(described_views(tables), described), nl=False)
