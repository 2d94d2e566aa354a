"""`sfcdc cut`: the versions to open all tables at, so that they show one moment."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from sfcdc_assets import open_cut
from sfcdc_assets.cli.terminal.options import moment_of
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.lake.errors import EntitiesLag
from sfcdc_assets.settings.settings import load_settings


def cut(
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Show the newest cut committed at or before this time (ISO 8601; UTC without a zone)."
        ),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(help="Show the cut of this channel; by default of the first configured.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail when an entity lags, and name each that does; not where the settings leave it out."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: table path -> Delta version.")] = False,
) -> None:
    """Show a consistent cut: the Delta version of every table at one position between two transactions.

    Tables opened at these versions belong together: nothing of a transaction is in one and missing in another. An
    entity that could not be brought that far is in the cut as of its own last batch, and is named as lagging.
    """
    settings = load_settings()
    wanted = channel or next(iter(settings.feeding_channels), settings.channels[0])
    opened = open_cut(settings.warehouse, channel=wanted, at=moment_of(at, "--at") if at is not None else None)
    (found,) = opened.cuts
    if strict and found.in_trouble:
        raise EntitiesLag(found.in_trouble)
    list(opened.values())  # raises where a version is gone: what is printed can be opened
    committed = _iso(found.commit_timestamp)
    as_of = opened.as_of
    if as_json:
        description = {"channel": wanted, "position": found.position, "commit_timestamp": committed}
        lagging = [{**asdict(each), "as_of": _iso(each.as_of), "since": _iso(each.since)} for each in found.lagging]
        shown = {entity: _iso(moment) for entity, moment in as_of.items()}
        say(json.dumps({**description, "tables": dict(found.tables), "lagging": lagging, "as_of": shown}))
        return
    say(f"# {wanted} at position {found.position}, last commit {committed or 'none yet'}")
    for each in found.lagging:
        say(f"# {each}")
    for entity in found.as_of:
        moment = as_of.get(entity)
        if moment is not None and found.lag_of(entity) is None:
            say(f"# {entity} as of {moment:%Y-%m-%d %H:%M:%S} UTC")
    for path, version in found.tables.items():
        say(f"{path}\t{version}")


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
