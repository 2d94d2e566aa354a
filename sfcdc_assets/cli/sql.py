"""`sfcdc sql`: ask the tables."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfcdc_assets.cli.terminal.options import Labels, moment_of
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.sql.kept_views import require_duckdb
from sfcdc_assets.sql.prompt import HELP, converse

if TYPE_CHECKING:
    from sfcdc_assets.sql.cut_connection import AskedTables
    from sfcdc_assets.sql.results import Format


def sql(
    *,
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
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse an entity that lags behind the cut, instead of naming it.")
    ] = False,
    labels: Labels = False,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="table|csv|spreadsheet|json",
            help="Write results in this form. csv has every value as it is; in spreadsheet, which is CSV too, an "
            "apostrophe stands before texts that a spreadsheet would take for formulas (=, +, -, @).",
        ),
    ] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Do the same as --format json.")] = False,
) -> None:
    """Ask the tables in SQL (DuckDB), all at one consistent cut.

    Each entity is a view named after it in lower case (`account`: live rows). Beside it are `account_history` (every
    version), `account_as_of('2026-11-20')`, `account_text_fields` and `account_gap_reconciliation`; `raw_events` and
    the other tables of the warehouse have their own names. Columns such as `owner_name` have the names of users. An
    entity that could not be brought to the cut is shown as of its own last batch, and a remark says so. Makes no API
    calls. Answers queries only, over the tables only. Exit code 1 when a statement fails or is refused.
    """
    require_duckdb("`sfcdc sql`")
    from sfcdc_assets.sql.ask import opened  # noqa: PLC0415 - only with the extra
    from sfcdc_assets.sql.results import Format  # noqa: PLC0415

    if form not in list(Format):
        raise typer.BadParameter(f"{form!r} is none of {', '.join(Format)}", param_hint="--format")
    chosen = Format.JSON if as_json else Format(form)
    moment = moment_of(at, "--at") if at is not None else None
    with opened(load_settings().warehouse, moment, strict=strict, labels=labels) as tables:
        if query is None and sys.stdin.isatty():
            _converse(tables, chosen, moment)
            return
        _answer(tables, _statements(query), chosen, moment)


def _statements(query: str | None) -> str:
    """Return what is asked, here or through a pipe. Raises `SettingsError` for bytes that are no text: Python keeps
    those of arguments, and in some locales those of a pipe, as halves of characters."""
    try:
        text = sys.stdin.read() if query is None else query
        text.encode()
    except UnicodeError:
        where = "the pipe" if query is None else "QUERY"
        raise SettingsError(where, "is no text in UTF-8", "Give statements of SQL") from None
    return text


@stops_at_once
def _answer(tables: AskedTables, text: str, form: Format, moment: datetime | None) -> None:
    from sfcdc_assets.sql.ask import ask  # noqa: PLC0415

    for remark in ask(tables, text, form, sys.stdout, _width(), moment):
        say(remark, err=True)


def _converse(tables: AskedTables, form: Format, moment: datetime | None) -> None:
    from sfcdc_assets.sql.ask import ask, described  # noqa: PLC0415

    def answer(statement: str) -> None:
        for remark in ask(tables, statement, form, sys.stdout, _width(), moment):
            say(remark, err=True)

    say(f"{described(tables, moment)}\n{HELP}", err=True)
    converse(answer, tables.connection.interrupt, tables.names, lambda line: say(line, err=True), _history())


def _history() -> Path:
    """Return the file of what was typed; below XDG_STATE_HOME, where a user's state belongs."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "sfcdc" / "sql_history"


def _width() -> int | None:
    """Return the width of the terminal; a pipe has none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
