"""`sfcdc emulator change`: records of an org that is being served."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfcdc_assets.cli.emulator_parts.control import AsJson, Folder, served_org
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.runtime.errors import SfcdcError


class ChangeError(SfcdcError):
    """What is to be changed is not said, or is said twice."""


def change(  # noqa: PLR0913 - a command's options
    *,
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="Id of the record, or an object's API name for a new record.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="New values; FIELD= is null.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Move the record to the recycle bin.")] = False,
    undelete: Annotated[bool, typer.Option("--undelete", help="Take the record back from the recycle bin.")] = False,
    convert: Annotated[bool, typer.Option("--convert", help="Convert the lead.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Create, change, delete or restore a record of the emulated org, as a person does in its pages.

    `sfcdc emulator change Account Name=Acme` prints the new record's id, and `sfcdc emulator change 001... Phone=123`
    changes that record. Each call is one transaction, and raises the change events of one.
    """
    actions = [name for name, wanted in (("delete", delete), ("undelete", undelete), ("convert", convert)) if wanted]
    if len(actions) > 1 or (actions and values):
        raise ChangeError("A record is either given new values or deleted, restored or converted: give one of them.")
    if not actions and not values:
        raise ChangeError(f"Nothing to change: give fields, such as `sfcdc emulator change {target} Name=Acme`.")
    body = {"target": target, "action": actions[0] if actions else "save", "values": _given(values or [])}
    with served_org(context, folder) as org:
        done = org.post("/change", body)
    if as_json:
        say(json.dumps(done))
    else:
        more = "".join(f", {name} {done[name]}" for name in ("account", "contact", "opportunity") if done.get(name))
        say(f"{done['entity']} {done['id']} {done['done']}{more}")


def _given(values: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ChangeError(f"{each} is no new value: write it as FIELD=VALUE.")
        given[name] = value
    return given
