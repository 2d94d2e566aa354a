"""`sfcdc doctor`: whether a set-up would work, before it is used."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfcdc_assets import clock
from sfcdc_assets.cli.dagster_ui import free_port
from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.doctor.examination import Machine, examine
from sfcdc_assets.doctor.finding import Finding, would_fail


@stops_at_once
def doctor(
    port: Annotated[
        int, typer.Option(metavar="N", help="The port that `sfcdc dev` is to serve the Dagster UI on.")
    ] = 3000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Check the set-up, from Java to the allowances of the org, and say how to mend what is wrong.

    Each line has what was found and what to do about it. Nothing is written but a table that is removed again, and no
    event is delivered; it takes some API requests for each object, and a Bulk job of one row for each that was never
    copied. Exit code 0 when all would work, 1 when something would fail. Values of secrets are never shown.
    """
    findings = list(examine(Machine(os.environ, port, free_port, clock.now_ms)))
    if as_json:
        typer.echo(json.dumps({"healthy": not would_fail(findings), "findings": [asdict(each) for each in findings]}))
    else:
        _show(findings)
    if would_fail(findings):
        raise typer.Exit(1)


_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "not checked": "dim"}


def _show(findings: list[Finding]) -> None:
    console = Console(highlight=False)
    if console.is_terminal:
        shown = Table("check", "", "found", box=None, pad_edge=False)
        for each in findings:
            shown.add_row(each.check, Text(each.outcome, _STYLES[each.outcome]), Text(_words(each)))
        console.print(shown)
    else:
        for each in findings:
            typer.echo(f"{each.check}: {each.outcome}: {_words(each)}")
    failed, warnings = (sum(each.outcome == one for each in findings) for one in ("failed", "warning"))
    typer.echo(f"{f'{failed} would fail' if failed else 'All would work'}; {warnings or 'nothing'} to look at.")


def _words(finding: Finding) -> str:
    return f"{finding.found} {finding.fix}" if finding.fix else finding.found
