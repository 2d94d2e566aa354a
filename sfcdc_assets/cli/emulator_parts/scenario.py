"""`sfcdc emulator scenario`: what happens in orgs, played in one that is being served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sfcdc_assets.cli.emulator_parts.control import AsJson, Folder, served_org
from sfcdc_assets.cli.emulator_parts.events import event_line

LIST = "list"
"""In place of a scenario's name."""
_EVERY_EVENT = "ChangeEvents"


def scenario(
    *,
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which one; without a name, they are listed.")] = LIST,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Play a scenario in the emulated org, and print each step with the change events that it raises, decoded.

    Its records are new ones, so it can be played again. With --json, each line is one step: `step`, `transactions` and
    `events`.
    """
    with served_org(context, folder) as org:
        if name == LIST:
            print_list(org.get("/scenarios")["scenarios"], as_json=as_json)
            return
        played = org.post(f"/scenarios/{name}", {})
    for number, step in enumerate(played["steps"], start=1):
        print_step(number, step, as_json=as_json)
    print_received(played["received"], as_json=as_json)


def print_list(described: Mapping[str, Mapping[str, str]], *, as_json: bool) -> None:
    """All scenarios: title, what happens, what is received."""
    for name, each in described.items():
        if as_json:
            typer.echo(json.dumps({"scenario": name, **each}))
        else:
            typer.echo(f"{typer.style(name, bold=True)}  {each['title']}")
            typer.echo(f"    {each['happens']} Received: {each['received']}")


def print_step(number: int, step: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a step that has been played, with its events."""
    if as_json:
        typer.echo(json.dumps(step))
        return
    typer.echo(typer.style(f"{number}. {step['step']}", bold=True))
    for event in step["events"]:
        channel = "" if event["channel"] == _EVERY_EVENT else f"{event['channel']}: "
        typer.echo(f"   {channel}{event_line(event)}")
    if step["transactions"] and not step["events"]:
        typer.echo("   no event")


def print_received(received: str, *, as_json: bool) -> None:
    """Print what there was to see."""
    if not as_json:
        typer.echo(f"Received: {received}")
