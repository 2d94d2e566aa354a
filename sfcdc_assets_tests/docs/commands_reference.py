"""docs/commands.md from the command line itself: what each command does, its exit codes, whether it
makes API calls, arguments and options.

The rest of a command's help text is in `--help` alone, and in the guides.
"""

from __future__ import annotations

import gc
import inspect
import re

import typer

from sfcdc_assets.cli.main import COMMANDS, app

_PAGE = """\
# Commands

What each command does, with its options; `sfcdc COMMAND --help` says more. All read their [settings](settings.md) from
the environment and from `.env`. An error is one sentence on standard error, which [Troubleshooting](troubleshooting.md)
explains. Ctrl-C ends any command within seconds with exit code 130, and the tables are consistent whenever that
happens.

<!-- Written by `make reference` from sfcdc_assets/cli. -->
"""


def commands_page() -> str:
    """The text of docs/commands.md."""
    try:
        return _PAGE + "".join(_section(name) for name in COMMANDS)
    finally:
        gc.unfreeze()  # a command that is imported freezes what there is, and DuckDB reports what is never freed


def _section(name: str) -> str:
    context = typer.main.get_command(app).commands[name].make_context(f"sfcdc {name}", [], resilient_parsing=True)
    command = context.command
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    parts = [f"\n## sfcdc {name}\n", _summary(command.help or "")]
    if usage != f"sfcdc {name} [OPTIONS]":
        parts.insert(1, f"```text\n{usage}\n```\n")
    for kind in ("argument", "option"):
        # By what they call themselves: Typer may bring a copy of click, whose classes are not click's.
        records = [each.get_help_record(context) for each in command.params if each.param_type_name == kind]
        if any(records):
            parts.append(_table(kind, [record for record in records if record is not None]))
    return "\n".join(parts)


def _summary(text: str) -> str:
    first, *others = (" ".join(each.split()) for each in inspect.cleandoc(text).split("\n\n"))
    sentences = re.split(r"(?<=\.) (?=[A-Z`])", " ".join(others))
    more = " ".join(each for each in sentences if re.search("exit code|API calls", each, re.IGNORECASE))
    return "\n\n".join([first, more] if more else [first]) + "\n"


def _table(kind: str, records: list[tuple[str, str]]) -> str:
    rows = (f"| `{_cell(form)}` | {_cell(text)} |" for form, text in records)
    return "\n".join([f"| {kind} | meaning |", "|---|---|", *rows]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
