"""`sfcdc doctor`: whether a set-up would work, before it is used."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from sfcdc_assets.cli.doctor_objects import show_objects
from sfcdc_assets.cli.local_dagster.dagster_ui import free_port
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.doctor.examination import Machine, examine
from sfcdc_assets.doctor.finding import Finding, Outcome, would_fail
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted


@stops_at_once
def doctor(
    *,
    port: Annotated[int, typer.Option(metavar="N", help="Check this port for the Dagster UI of `sfcdc dev`.")] = 3000,
    objects: Annotated[
        bool,
        typer.Option(
            "--objects", help="List every object of the org instead: how it is fed or could be, and its cost."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Check the set-up, from Java to the org's allowances, and say how to fix what is wrong.

    Each line has what was found and what to do about it. Nothing is written but a table that is removed again, and no
    event is delivered; it takes some API requests for each object, and a Bulk job of one row for each that was never
    copied. Exit code 0 when all would work, 1 when something would fail. Values of secrets are never shown.

    With --objects: rows, changes of the last 24 hours, what feeds each object and what polling it takes of the org's
    API requests, and which deserve change events or a PushTopic. Writes nothing, and says how many requests it took: a
    few, and one for each five objects that have records.
    """
    if objects:
        show_objects(as_json=as_json)
        return
    found = examine(Machine(os.environ, port, free_port, clock.now_ms))
    findings = list(found) if as_json else _shown(found)
    if as_json:
        say(json.dumps({"healthy": not would_fail(findings), "findings": [asdict(each) for each in findings]}))
    if would_fail(findings):
        raise typer.Exit(1)


_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "not checked": "dim"}
_INDENT = 13


def _shown(found: Iterable[Finding]) -> list[Finding]:
    """Print a line for each finding as it comes, and one for all."""
    console = Screen(highlight=False)
    findings = []
    for each in found:
        findings.append(each)
        if console.is_terminal:
            console.print(line_of(each, console.width), soft_wrap=True)
        else:
            say(f"{each.check}: {each.outcome}: {_words(each)}")
    say(_verdict(findings))
    return findings


def _verdict(findings: Sequence[Finding]) -> str:
    """Sum the findings up in one sentence."""
    failed, warnings, unchecked = (
        sum(each.outcome is one for each in findings) for one in (Outcome.FAILED, Outcome.WARNING, Outcome.NOT_CHECKED)
    )
    parts = [f"{counted(failed, 'check')} failed" if failed else "All would work"]
    parts += [f"{unchecked} could not be made"] * bool(unchecked)
    parts += [counted(warnings, "warning")] * bool(warnings)
    return f"{'; '.join(parts)}."


def line_of(finding: Finding, width: int) -> Text:
    """Write a finding for a terminal: words, and so the names among them, stay whole."""
    lines = textwrap.wrap(
        f"{finding.check}: {_words(finding)}", width - _INDENT, break_long_words=False, break_on_hyphens=False
    )
    return Text.assemble((finding.outcome.ljust(_INDENT), _STYLES[finding.outcome]), f"\n{' ' * _INDENT}".join(lines))


def _words(finding: Finding) -> str:
    return f"{finding.found} {finding.fix}" if finding.fix else finding.found
