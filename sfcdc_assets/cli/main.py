"""The `sfcdc` command: one module a subcommand. Errors are one plain sentence and a non-zero exit."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from sfcdc_assets.cli.accept import accept
from sfcdc_assets.cli.cuts import cut
from sfcdc_assets.cli.dbt_sources import dbt_sources
from sfcdc_assets.cli.demo import demo
from sfcdc_assets.cli.dev import dev
from sfcdc_assets.cli.doctor import doctor
from sfcdc_assets.cli.emulator import emulator
from sfcdc_assets.cli.explain import explain
from sfcdc_assets.cli.maintain import maintain
from sfcdc_assets.cli.rebuild import rebuild
from sfcdc_assets.cli.sql import sql
from sfcdc_assets.cli.status import status
from sfcdc_assets.cli.sync import sync
from sfcdc_assets.cli.verify import verify
from sfcdc_assets.cli.views import views
from sfcdc_assets.errors import SfcdcError


class PlainErrors(TyperGroup):
    """Tells what the project raises on purpose as its sentence, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; exit 1 with the sentence of an `SfcdcError`."""
        try:
            return super().invoke(ctx)
        except SfcdcError as error:
            typer.echo(f"sfcdc: {error}", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A Delta Lake copy of a Salesforce org, kept true from its change events. Settings are SFCDC_* environment "
    "variables or a .env file; the README lists them.",
)
app.command()(emulator)
app.command()(sync)
app.command()(status)
app.command()(doctor)
app.command()(verify)
app.command()(explain)
app.command()(accept)
app.command()(rebuild)
app.command()(maintain)
app.command()(cut)
app.command()(sql)
app.command()(views)
app.command()(dbt_sources)
app.command()(demo)
app.command()(dev)
