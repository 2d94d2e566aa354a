"""`sfcdc verify`: the tables against the org."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from sfcdc_assets.cli.syncing.verify_progress import VerifyProgress
from sfcdc_assets.cli.syncing.verify_topics import compare_topics, show_topics
from sfcdc_assets.cli.terminal.fitting_table import Column, print_table
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.cli.terminal.progress_display import ProgressDisplay
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.damage import damages_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import NOW
from sfcdc_assets.orchestration.sensors.open_channels import OneSubscription, OpenChannels
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_connection.wanted_entities import entity_named
from sfcdc_assets.reconciliation.audit import audit
from sfcdc_assets.reconciliation.verify import open_drift_suspects
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted, enumerated
from sfcdc_assets.settings.settings import load_settings

DRIFT = 3
"""Exit code when a table differs from the org."""
NOT_COMPARED = 1
"""Exit code when nothing differs, but not all that was to be compared could be."""
SHOWN = 20
_COLUMNS = (
    Column("entity"),
    Column("org"),
    Column("table"),
    Column("compared"),
    Column("again", 4),
    Column("changed meanwhile", 3),
    Column("suspect", 1),
    Column("values", 5),
    Column("different"),
    Column("requests", 2),
)


@stops_at_once
def verify(
    *,
    entity: Annotated[
        list[str] | None, typer.Option(metavar="ENTITY", help="Compare this entity only; may be given several times.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Compare this PushTopic only; may be given several times.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Spend at most so many API requests; parts that do not fit are named, and come first next time.",
        ),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mark what differs as suspect and read it back.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare each entity's table with the org, record by record and field by field.

    Reads every entity by Bulk API 2.0, whole or as far as the budget goes, and compares records that change meanwhile
    again, after a sync. Exit code 0 when all are equal, 3 when something differs (it is listed), 1 when the comparison
    could not be made, also where records changed each time or stay suspect; an entity with a damaged table is named
    and left out, and parts that --budget leaves unread are named and count as neither. The last line
    is the verdict. With --repair what differs is healed and compared again. Also checks
    that the versions in `history` follow one another up to each row, and compares the state of each PushTopic with the
    topic's own query.
    """
    damaged = _damaged(entity or []) if entity or not topic else []
    for each in damaged:
        say(f"sfcdc: {each}", err=True)
    without = {each.entity for each in damaged if each.entity}
    reports: list[VerifyReport] = []
    with ProgressDisplay(VerifyProgress()) as display:
        topics = compare_topics(topic or []) if topic or not entity else []
        if entity or not topic:
            reports = verify_entities(entity or [], display.tell, budget, without)
        if repair:
            reports = _repaired(reports, display.tell, budget)
    refused = [report.refused for report in reports if report.refused]
    for sentence in refused:
        say(sentence, err=True)
    if as_json:
        equal = not damaged and all(each.is_equal for each in reports) and all(each.is_equal for each in topics)
        described = [{**asdict(each), "equal": each.is_equal} for each in topics]
        say(json.dumps({"equal": equal, "entities": [report.to_json() for report in reports], "topics": described}))
    else:
        if topics:
            show_topics(topics, SHOWN)
        if reports or not topics:
            show(reports)
            say(verdict(reports, [str(each.entity or each.table) for each in damaged]))
    if any(report.differs for report in reports) or not all(each.is_equal for each in topics):
        raise typer.Exit(DRIFT)
    if damaged or refused or any(report.left for report in reports):
        raise typer.Exit(NOT_COMPARED)


def _repaired(reports: list[VerifyReport], tell: Callable[[str], None], budget: int | None) -> list[VerifyReport]:
    """Have what differs read back, and return the reports, those of its entities from after it."""
    differing = [report for report in reports if report.differences]
    if not differing:
        return reports
    warehouse = Warehouse(load_settings().warehouse)
    for report in differing:
        opened = open_drift_suspects(warehouse, report, clock.now_ms())
        tell(f"{report.entity}: {counted(opened, 'record')} to be read back.")
    _sync(tell, {report.channel for report in differing})
    again = {each.entity: each for each in verify_entities([each.entity for each in differing], tell, budget)}
    return [again.get(report.entity, report) for report in reports]


def _sync(tell: Callable[[str], None], only: Collection[str], channels: OpenChannels | None = None) -> None:
    """Bring the tables of these channels up to date; `tell` is given what the ticks come to."""
    from sfcdc_assets.cli.local_dagster.drive import sync_channels  # noqa: PLC0415 - Dagster is slow to load
    from sfcdc_assets.cli.local_dagster.instance import dagster_instance  # noqa: PLC0415

    with dagster_instance() as instance:
        sync_channels(instance, until_caught_up=True, report=tell, channels=channels, only=only)


def verify_entities(
    wanted: list[str],
    tell: Callable[[str], None],
    budget: int | None = None,
    without: Collection[str] = (),
    channels: OpenChannels | None = None,
) -> list[VerifyReport]:
    """Return a report for each wanted entity, or for all that are known, but for those in `without`. `tell` is given
    what the syncs between two comparisons come to: of the channels that feed these entities. `channels`: the caller's,
    which stay open."""
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    own = nullcontext(channels) if channels else OpenChannels(forgotten_seconds=math.inf, tries_at_once=True)
    with open_org(warehouse, settings) as org, own as opened:
        known = entity_channels(warehouse, settings.channels, settings.entities, org.members)
        wanted = [entity_named(entity, known, "no configured channel carries it") for entity in wanted]
        chosen = {
            entity: channel
            for entity, channel in known.items()
            if (not wanted or entity in wanted) and entity not in without
        }
        return audit(
            OrgRunContext(warehouse=warehouse, settings=settings, org=org),
            chosen,
            OneSubscription(opened, settings, NOW),
            budget,
            bring_up_to_date=lambda: _sync(tell, set(chosen.values()), opened),
        )


def _damaged(wanted: list[str]) -> list[TableDamaged]:
    """Damage of the wanted entities' tables, or of all that there are."""
    warehouse = Warehouse(load_settings().warehouse)
    known = sorted({*warehouse.entities("current_state"), *warehouse.entities("snapshot")})
    chosen = {entity.lower() for entity in wanted}
    return damages_of(warehouse, [entity for entity in known if not wanted or entity.lower() in chosen])


def show(reports: list[VerifyReport]) -> None:
    """Print a line for each entity, what could not be compared, then the first differences."""
    console = Screen()
    print_table(None, _COLUMNS, [_row(report) for report in reports], left_out="--json has all.")
    for report in reports:
        if report.skipped:
            parts = report.windows + report.skipped
            console.print(
                f"{report.entity}: {report.skipped} of {counted(parts, 'part')} not read: the budget is spent."
            )
        if report.left:
            console.print(
                f"{report.entity}: {counted(len(report.left), 'record')} could not be compared: "
                f"{report.changed_meanwhile:,} changed each time, {report.suspects:,} suspect, {report.unreadable:,} "
                "unreadable. Run it again, or `sfcdc sync --until-caught-up` first.",
                soft_wrap=True,
            )
        if report.broken_histories:
            broken = counted(len(report.broken_histories), "record")
            console.print(
                f"{report.entity}: the versions of {broken} do not follow one another "
                f"({enumerated(report.broken_histories)}). `sfcdc rebuild --entity {report.entity}` builds them again.",
                soft_wrap=True,
            )
    differences = [difference for report in reports for difference in report.differences]
    for difference in differences[:SHOWN]:
        console.print(str(difference), markup=False, highlight=False, soft_wrap=True)
    if len(differences) > SHOWN:
        console.print(f"... and {len(differences) - SHOWN:,} more; --json lists them.")


def verdict(reports: Sequence[VerifyReport], damaged: Sequence[str] = ()) -> str:
    """All of it in one sentence, with the command that goes on from there."""
    differing = [report for report in reports if report.differs]
    if differing:
        records = sum(len({each.record_id for each in report.differences}) for report in differing)
        more = "+" if any(report.cut_off for report in differing) else ""
        broken = sum(len(report.broken_histories) for report in differing)
        differ = "record differs" if (records, more) == (1, "") else "records differ"
        found = [f"{records:,}{more} {differ} from the org"] * bool(records)
        found += [f"the versions of {counted(broken, 'record')} do not follow one another"] * bool(broken)
        fix = "`sfcdc verify --repair` reads them back." if records else "`sfcdc rebuild` builds them again."
        return f"Different: {' and '.join(found)}, in {enumerated([report.entity for report in differing])}. {fix}"
    refused = [report.entity for report in reports if report.refused]
    left = [report for report in reports if report.left]
    missing = [
        *([f"tables of {enumerated(damaged)} are damaged"] if damaged else []),
        *([f"{enumerated(refused)} cannot be read as a whole"] if refused else []),
        *(
            [f"{counted(sum(len(r.left) for r in left), 'record')} of {enumerated([r.entity for r in left])}"]
            if left
            else []
        ),
    ]
    compared = counted(sum(report.compared for report in reports), "record")
    values = counted(sum(report.values_compared for report in reports), "value")
    if missing:
        return f"Not everything could be compared: {'; '.join(missing)}. The other {compared} equal the org."
    parts = sum(report.skipped for report in reports)
    if parts:
        unread = f"{counted(parts, 'part')} left unread"
        return f"Equal, as far as the budget went: {compared} ({values}) equal the org; {unread}."
    return f"Equal: all {compared} ({values}) of {counted(len(reports), 'entity')} equal the org."


def _row(report: VerifyReport) -> tuple[str | Text, ...]:
    different = f"{len(report.differences):,}{'+' if report.cut_off else ''}"
    return (
        report.entity,
        f"{report.in_org:,}",
        f"{report.in_table:,}",
        f"{report.compared:,}",
        f"{report.compared_again:,}",
        f"{report.changed_meanwhile:,}",
        f"{report.suspects:,}",
        f"{report.values_compared:,}",
        Text(different, "red" if report.differences else ""),
        str(report.calls),
    )
