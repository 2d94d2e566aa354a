"""`sfcdc cut`: the versions to open all tables at, so that they show one moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from sfcdc_assets.config import load_settings
from sfcdc_assets.lake.open_cut import open_cut


def cut(
    at: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", help="Show the newest cut committed at or before this time (UTC)."),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(help="Show the cut of this channel; by default of the first configured.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: table path -> Delta version.")] = False,
) -> None:
    """Show a consistent cut: the Delta version of every table at one position between two transactions.

    Tables opened at these versions belong together: nothing of a transaction is in one and missing in another.
    """
    settings = load_settings()
    wanted = channel or next(iter(settings.change_channels), settings.channels[0])
    opened = open_cut(settings.warehouse, channel=wanted, at=at.replace(tzinfo=UTC) if at is not None else None)
    list(opened.values())  # raises where a version is gone: what is printed can be opened
    found = opened.cut
    committed = found.commit_timestamp.isoformat() if found.commit_timestamp else None
    if as_json:
        description = {"channel": wanted, "position": found.position, "commit_timestamp": committed}
        typer.echo(json.dumps({**description, "tables": dict(found.tables)}))
        return
    typer.echo(f"# {wanted} at position {found.position}, last commit {committed or 'none yet'}")
    for path, version in found.tables.items():
        typer.echo(f"{path}\t{version}")
