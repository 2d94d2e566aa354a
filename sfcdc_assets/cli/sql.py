"""`sfcdc sql`: ask the tables."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sfcdc_assets.cli.sql_extra import require_duckdb
from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.config import load_settings
from sfcdc_assets.sql.conversation import HELP, converse
from sfcdc_assets.sql.moment import moment_of

if TYPE_CHECKING:
    from sfcdc_assets.sql.asked_tables import AskedTables
    from sfcdc_assets.sql.results import Format


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERY]",
            help="Ask this. Left out, statements are read from a pipe, or typed at a prompt on a terminal.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Show the tables as they were at this time (ISO 8601; UTC without a zone)."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="table|csv|json", help="Write results in this form: table, csv or json.")
    ] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Do the same as --format json.")] = False,
) -> None:
    """Ask the tables in SQL (DuckDB), all at one consistent cut.

    Each entity is a view named after it in lower case (`account`: live rows). Beside it are `account_history` (every
    version), `account_as_of('2026-11-20')`, `account_text_fields` and `account_gap_reconciliation`; `raw_events` and
    the other tables of the warehouse have their own names. Columns such as `owner_name` have the names of users. Makes
    no API calls and changes no table. Exit code 1 when a statement fails.
    """
    require_duckdb("`sfcdc sql`")
    from sfcdc_assets.sql.ask import opened  # noqa: PLC0415 - only with the extra
    from sfcdc_assets.sql.results import Format  # noqa: PLC0415

    if form not in list(Format):
        raise typer.BadParameter(f"{form!r} is none of table, csv, json", param_hint="--format")
    chosen = Format.JSON if as_json else Format(form)
    moment = moment_of(at) if at is not None else None
    with opened(load_settings().warehouse, moment) as tables:
        if query is None and sys.stdin.isatty():
            _converse(tables, chosen, moment)
            return
        _answer(tables, sys.stdin.read() if query is None else query, chosen, moment)


@stops_at_once
def _answer(tables: AskedTables, text: str, form: Format, moment: datetime | None) -> None:
    from sfcdc_assets.sql.ask import ask  # noqa: PLC0415

    for remark in ask(tables, text, form, sys.stdout, _width(), moment):
        typer.echo(remark, err=True)


def _converse(tables: AskedTables, form: Format, moment: datetime | None) -> None:
    from sfcdc_assets.sql.ask import ask, described  # noqa: PLC0415

    def answer(statement: str) -> None:
        for remark in ask(tables, statement, form, sys.stdout, _width(), moment):
            typer.echo(remark, err=True)

    typer.echo(f"{described(tables, moment)}\n{HELP}", err=True)
    converse(answer, tables.connection.interrupt, tables.names, lambda line: typer.echo(line, err=True))


def _width() -> int | None:
    """Of the terminal; a pipe has none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
