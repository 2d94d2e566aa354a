"""`sfcdc verify`: the tables against the org."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sfcdc_assets.config import load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing import Lander
from sfcdc_assets.pipeline.org import connect
from sfcdc_assets.pipeline.verify import VerifyReport, verify_entity

DRIFT = 3
"""Exit code when a table differs from the org."""
SHOWN = 20


def verify(
    entity: Annotated[list[str] | None, typer.Option(help="Only this entity; may be given several times.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare each entity's table with the org, record by record and field by field.

    Reads every entity whole by Bulk API 2.0. Records that change meanwhile are left out and counted. Exit code 0 when
    all are equal, 3 when something differs (what differs is listed), 1 when the comparison could not be made.
    """
    reports = verify_entities(entity or [])
    drift = any(report.differences for report in reports)
    if as_json:
        told = [{**asdict(report), "differences": [asdict(each) for each in report.differences]} for report in reports]
        typer.echo(json.dumps({"equal": not drift, "entities": told}))
    else:
        show(reports)
    if drift:
        raise typer.Exit(DRIFT)


def verify_entities(wanted: list[str]) -> list[VerifyReport]:
    """A report for each wanted entity, or for all that are known."""
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    with connect(settings) as org:
        known = entity_channels(warehouse, settings.channels, settings.entities, org.members)
        unknown = [entity for entity in wanted if entity not in known]
        if unknown:
            raise SettingsError(
                "--entity", f"no configured channel carries {', '.join(unknown)}", f"Known are {', '.join(known)}"
            )
        lander = Lander(warehouse, org)
        return [
            verify_entity(warehouse, org, lander, entity, channel)
            for entity, channel in known.items()
            if not wanted or entity in wanted
        ]


def show(reports: list[VerifyReport]) -> None:
    """A line for each entity, then the first differences."""
    console = Console()
    table = Table("entity", "org", "table", "in motion", "values compared", "different", "API requests")
    for report in reports:
        different = f"{len(report.differences):,}{'+' if report.cut_off else ''}"
        table.add_row(
            report.entity,
            f"{report.in_org:,}",
            f"{report.in_table:,}",
            f"{report.in_motion:,}",
            f"{report.values_compared:,}",
            f"[red]{different}[/red]" if report.differences else different,
            str(report.calls),
        )
    console.print(table)
    differences = [difference for report in reports for difference in report.differences]
    for difference in differences[:SHOWN]:
        console.print(str(difference), markup=False, highlight=False)
    if len(differences) > SHOWN:
        console.print(f"... and {len(differences) - SHOWN:,} more; --json lists them.")
