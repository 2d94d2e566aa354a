"""`sfcdc cut`: the versions to open all tables at, so that they show one moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from sfcdc_assets.config import load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.consistent_cuts import latest_cut
from sfcdc_assets.lake.warehouse import Warehouse


def cut(
    at: Annotated[datetime | None, typer.Option(help="The newest cut committed at or before this time (UTC).")] = None,
    channel: Annotated[str | None, typer.Option(help="Of this channel; by default of the first configured.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: table path -> Delta version.")] = False,
) -> None:
    """Show a consistent cut: the Delta version of every table at one position between two transactions.

    Tables opened at these versions belong together: nothing of a transaction is in one and missing in another.
    """
    settings = load_settings()
    wanted = channel or settings.channels[0]
    moment = at.replace(tzinfo=UTC) if at is not None else None
    found = latest_cut(Warehouse(settings.warehouse), wanted, moment)
    if found is None:
        raise SettingsError(
            "--at" if at else "SFCDC_WAREHOUSE",
            f"there is no consistent cut of {wanted}" + (f" at or before {at}" if at else " yet"),
            "Run `sfcdc sync` until it is caught up",
        )
    committed = found.commit_timestamp.isoformat() if found.commit_timestamp else None
    if as_json:
        told = {"channel": wanted, "position": found.position, "commit_timestamp": committed}
        typer.echo(json.dumps({**told, "tables": dict(found.tables)}))
        return
    typer.echo(f"# {wanted} at position {found.position}, last commit {committed or 'none yet'}")
    for path, version in found.tables.items():
        typer.echo(f"{path}\t{version}")
