"""The `sfcdc` command: one module a subcommand, imported when it runs. Errors are one sentence and a non-zero exit.

Dagster, PySpark and the libraries of tables take seconds to import, and most commands need few of them: so that
`--help` answers at once, it knows of each command what the table below says.
"""

from __future__ import annotations

import gc
import inspect
import os
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sfcdc_assets.cli.terminal.output import log_as_json, say, say_error
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.setting_values import ORG, as_set_here, environment, values_of

COMMANDS = {
    "emulator": "Serve an emulated Salesforce org over TLS on this machine until interrupted.",
    "sync": "Poll every channel and bring the tables up to date, through Dagster, in this process.",
    "status": "Show each channel's checkpoint and each entity's table. Reads the tables only; makes no API calls.",
    "doctor": "Check the set-up, from Java to the org's allowances, and say how to fix what is wrong.",
    "verify": "Compare each entity's table with the org, record by record and field by field.",
    "explain": "Show every value that a field, or a whole record, has had: since when, by whom, in which transaction, "
    "from where.",
    "topics": "Compare the org's PushTopics with the files that define them, or apply the files to the org.",
    "accept": "Accept a read of the org that was held back because it would delete too many rows.",
    "rebuild": "Rebuild an entity's tables from stored events and snapshots, to the same rows, or from a new snapshot.",
    "history-before": "Add versions from before the first snapshot to `history`, from the org's field history "
    "(AccountHistory ...).",
    "maintain": "Compact, vacuum and prune the warehouse, so that it stays fast as it ages.",
    "forget": "Erase records from every table, old files included, and keep them out.",
    "forget-samples": "Delete sample rows, which materializations have shown, from Dagster's event log.",
    "cut": "Show a consistent cut: the Delta version of every table at one position between two transactions.",
    "changes": "Print what has changed in an entity since a token, one JSON object a line, up to the newest cut.",
    "certify": "Write a certificate of the newest consistent cut, or check one.",
    "sql": "Ask the tables in SQL (DuckDB), all at one consistent cut.",
    "views": "Write the views of `sfcdc sql` for other tools: to a DuckDB file, or as SQL for another engine.",
    "dbt-sources": "Print a dbt `sources.yml` of the views that `sfcdc views` writes, with descriptions of every "
    "column.",
    "push": "Push a text to a generic channel, and print how many subscribers it was sent to and who is online.",
    "demo": "Copy an emulated org, follow its changes of every kind, and compare every table with it, field by field.",
    "dev": "Serve the Dagster UI on 127.0.0.1 with the sensors on, until interrupted.",
    "spark": "Keep a Spark running that `sfcdc sync` and Dagster's runs on this machine share.",
}
"""Each with the first paragraph of its own help."""

PANELS = {
    "Start": ("demo", "dev", "doctor", "emulator", "spark"),
    "Copy, and see that it is right": ("sync", "status", "verify", "explain", "certify"),
    "Ask the tables": ("sql", "changes", "cut", "views", "dbt-sources"),
    "Repair and maintain": ("rebuild", "accept", "history-before", "maintain", "forget", "forget-samples"),
    "PushTopics and generic channels": ("topics", "push"),
}
"""What `sfcdc --help` puts together, and in which order."""


def function_of(command: str) -> Any:
    """Return what a command calls: the function of its name, in the module of its name in this package. What is
    imported stays, so garbage is not looked for among it, now or later."""
    name = command.replace("-", "_")
    gc.disable()
    try:
        found = getattr(import_module(f"sfcdc_assets.cli.{name}"), name)
        gc.freeze()
    finally:
        gc.enable()
    return found


def subcommands_of(command: str) -> dict[str, Any]:
    """Functions of the commands below a command: what its module lists as SUBCOMMANDS."""
    module = import_module(f"sfcdc_assets.cli.{command.replace('-', '_')}")
    return dict(getattr(module, "SUBCOMMANDS", {}))


class ShownCommand(TyperCommand):
    """A command whose help names no type for an option that takes no value (typer would show `--json <bool>`)."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as they are shown."""
        return [_shown(each) for each in super().get_params(ctx)]


class ShownGroup(TyperGroup):
    """The same for a command that has others below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as they are shown."""
        return [_shown(each) for each in super().get_params(ctx)]


class LaterCommand(ShownCommand):
    """Stands for a command whose module is not imported yet, until it is called, completed or asked for its help."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the context of the command itself."""
        assert self.name is not None
        function, below = function_of(self.name), subcommands_of(self.name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        if below:
            alone.callback(invoke_without_command=True, cls=ShownGroup, help=_paragraphs(function))(function)
        else:
            alone.command(self.name, cls=ShownCommand, help=_paragraphs(function))(function)
        for name, each in below.items():
            alone.command(name, cls=ShownCommand, help=_paragraphs(each))(each)
        return typer.main.get_command(alone).make_context(info_name, args, parent=parent, **extra)


def _shown(parameter: Any) -> Any:
    if getattr(parameter, "help", None):
        parameter.help = as_set_here(parameter.help)
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    return parameter


def _paragraphs(function: Any) -> str:
    """Return the command's docstring with a line for each paragraph, which then wrap at the width of the terminal."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return as_set_here("\n\n".join(" ".join(each.split()) for each in paragraphs))


class Commands(ShownGroup):
    """Reports what the project raises on purpose as its sentence, without a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for panel, names in PANELS.items():
            for name in names:
                self.add_command(LaterCommand(name, help=COMMANDS[name], rich_help_panel=panel))

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; exit 1 with the sentence of an `SfcdcError`."""
        try:
            return super().invoke(ctx)
        except SfcdcError as error:
            say_error(error)
            raise typer.Exit(1) from error


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:  # noqa: FBT001 - a callback of typer
    if wanted:
        say(f"sfcdc {version('sfcdc_assets')}")
        raise typer.Exit


@app.callback()
def sfcdc(
    *,
    org: Annotated[
        str | None,
        typer.Option("--org", metavar="NAME", help="Work on this org, one of SFCDC_ORGS; the same as SFCDC_ORG=NAME."),
    ] = None,
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep a Delta Lake copy of a Salesforce org current from its change events. New here? `sfcdc demo` needs no org;
    with settings for your own org, begin with `sfcdc doctor`. Settings are SFCDC_* environment variables or lines of a
    .env file; the README lists them."""
    if org is not None:
        os.environ[ORG] = org
    given = environment()
    name = given.get(ORG)
    if values_of(name, given, ["log_format"]).get("log_format") == "json":
        log_as_json(name)
