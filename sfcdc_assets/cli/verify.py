"""`sfcdc verify`: the tables against the org."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sfcdc_assets import clock
from sfcdc_assets.cli.stopping import stops_at_once
from sfcdc_assets.cli.verify_topics import compare_topics, show_topics
from sfcdc_assets.config import load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.damage import damage_of
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.audits.audit import audit
from sfcdc_assets.pipeline.audits.verify import VerifyReport, open_drift_doubts
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing.connect_for import connect_for
from sfcdc_assets.pipeline.landing.land import LandingReport
from sfcdc_assets.pipeline.landing.patience import POLL
from sfcdc_assets.sensors.open_channels import OpenChannel, OpenChannels

DRIFT = 3
"""Exit code when a table differs from the org."""
NOT_COMPARED = 1
"""Exit code when nothing differs, but not all that was to be compared could be."""
SHOWN = 20


@stops_at_once
def verify(
    entity: Annotated[list[str] | None, typer.Option(help="Only this entity; may be given several times.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this PushTopic; may be given several times.")] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="The most API requests to spend; parts that do not fit are named, and come first next time."),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Open doubts for what differs and read it back.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare each entity's table with the org, record by record and field by field.

    Reads by Bulk API 2.0, every entity whole or as far as the budget goes. Records that change while they are compared
    are compared again, after a sync like that of `sfcdc sync`. Exit code 0 when all are equal, 3 when something differs
    (what differs is listed), 1 when the comparison could not be made, also where records changed each time or stay in
    doubt; an entity with a damaged table is named and left out. With --repair what differs is healed and compared
    again. Also checks that each record's versions in `history` follow one another up to its row, and compares the state
    of each PushTopic with the topic's own query.
    """
    damaged = _damaged(entity or []) if entity or not topic else []
    for each in damaged:
        typer.echo(f"sfcdc: {each}", err=True)
    topics = compare_topics(topic or []) if topic or not entity else []
    reports = []
    if entity or not topic:
        reports = verify_entities(entity or [], budget, without={each.entity for each in damaged if each.entity})
    differing = [report for report in reports if report.differences]
    if repair and differing:
        warehouse = Warehouse(load_settings().warehouse)
        for report in differing:
            opened = open_drift_doubts(warehouse, report, clock.now_ms())
            typer.echo(f"{report.entity}: {opened} records are read back.", err=True)
        _sync()
        again = {report.entity: report for report in verify_entities([each.entity for each in differing], budget)}
        reports = [again.get(report.entity, report) for report in reports]
    if as_json:
        equal = not damaged and all(each.is_equal for each in reports) and all(each.is_equal for each in topics)
        described = [{**asdict(each), "equal": each.is_equal} for each in topics]
        typer.echo(
            json.dumps({"equal": equal, "entities": [report.to_json() for report in reports], "topics": described})
        )
    else:
        if reports or not topics:
            show(reports)
        if topics:
            show_topics(topics, SHOWN)
    refused = [report.refused for report in reports if report.refused]
    for sentence in refused:
        typer.echo(sentence, err=True)
    if any(report.differs for report in reports) or not all(each.is_equal for each in topics):
        raise typer.Exit(DRIFT)
    if damaged or refused or any(report.left for report in reports):
        raise typer.Exit(NOT_COMPARED)


def _sync(channels: OpenChannels | None = None) -> None:
    """Bring the tables up to date, telling the ticks on standard error."""
    from sfcdc_assets.cli.ticks import dagster_instance, sync_channels  # noqa: PLC0415 - Dagster is slow to load

    with dagster_instance() as instance:
        sync_channels(instance, until_caught_up=True, tell=lambda line: typer.echo(line, err=True), channels=channels)


@dataclass(frozen=True)
class _OneSubscription:
    """Lands by the subscriptions that the syncs between two comparisons use too: nothing is delivered twice."""

    open_channel: Callable[[str], OpenChannel]

    def land(self, channel: str) -> LandingReport:
        """Land what there is."""
        return self.open_channel(channel).reader.land(POLL)


def verify_entities(wanted: list[str], budget: int | None = None, without: Collection[str] = ()) -> list[VerifyReport]:
    """A report for each wanted entity, or for all that are known, but for those in `without`."""
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    connect = partial(connect_for, warehouse, settings)
    with connect() as org, OpenChannels(forgotten_seconds=math.inf) as channels:
        known = entity_channels(warehouse, settings.channels, settings.entities, org.members)
        unknown = [entity for entity in wanted if entity not in known]
        if unknown:
            raise SettingsError(
                "--entity", f"no configured channel carries {', '.join(unknown)}", f"Known are {', '.join(known)}"
            )
        chosen = {
            entity: channel
            for entity, channel in known.items()
            if (not wanted or entity in wanted) and entity not in without
        }
        return audit(
            warehouse,
            org,
            chosen,
            budget,
            lander=_OneSubscription(lambda channel: channels.of(channel, warehouse, settings, connect)),
            visibility_seconds=settings.visibility_seconds,
            bring_up_to_date=lambda: _sync(channels),
        )


def _damaged(wanted: list[str]) -> list[TableDamaged]:
    """Damage of the wanted entities' tables, or of all that there are."""
    warehouse = Warehouse(load_settings().warehouse)
    known = sorted({*warehouse.entities("current_state"), *warehouse.entities("snapshot")})
    return [each for entity in known if not wanted or entity in wanted for each in damage_of(warehouse, entity)]


def show(reports: list[VerifyReport]) -> None:
    """A line for each entity, what could not be compared, then the first differences."""
    console = Console()
    columns = ("org", "table", "compared", "again", "changed meanwhile", "in doubt", "values", "different", "requests")
    table = Table("entity", *columns)
    for report in reports:
        different = f"{len(report.differences):,}{'+' if report.cut_off else ''}"
        table.add_row(
            report.entity,
            f"{report.in_org:,}",
            f"{report.in_table:,}",
            f"{report.compared:,}",
            f"{report.compared_again:,}",
            f"{report.changed_meanwhile:,}",
            f"{report.in_doubt:,}",
            f"{report.values_compared:,}",
            f"[red]{different}[/red]" if report.differences else different,
            str(report.calls),
        )
    console.print(table)
    for report in reports:
        if report.skipped:
            parts = report.windows + report.skipped
            console.print(f"{report.entity}: {report.skipped} of {parts} parts were not read: the budget is spent.")
        if report.left:
            console.print(
                f"{report.entity}: {len(report.left):,} records could not be compared: {report.changed_meanwhile:,} "
                f"changed each time, {report.in_doubt:,} are in doubt, {report.unreadable:,} cannot be read. "
                "Run it again, or `sfcdc sync --until-caught-up` first.",
                soft_wrap=True,
            )
        if report.broken_histories:
            first = ", ".join(report.broken_histories[:3])
            console.print(
                f"{report.entity}: the versions of {len(report.broken_histories):,} records do not follow one another "
                f"({first} ...). `sfcdc rebuild --entity {report.entity}` builds them again.",
                soft_wrap=True,
            )
    differences = [difference for report in reports for difference in report.differences]
    for difference in differences[:SHOWN]:
        console.print(str(difference), markup=False, highlight=False)
    if len(differences) > SHOWN:
        console.print(f"... and {len(differences) - SHOWN:,} more; --json lists them.")
