"""`sfcdc status`: where the channels and tables stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.fitting_table import Column, print_table
from sfcdc_assets.cli.terminal.interruption import Interruption
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.channel_kinds import POLLED, feeds_entities
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.status.remarks import remarks_on
from sfcdc_assets.status.staleness import LEAST_SECONDS, WarehouseStale, stale_parts
from sfcdc_assets.status.status import status_of
from sfcdc_assets.status.status_report import EntityStatus, WarehouseStatus
from sfcdc_assets.timeline.suspect import Reason

_CHANNEL_COLUMNS = (
    Column("channel"),
    Column("position"),
    Column("complete", 2),
    Column("delivered again", 3),
    Column("last landed (UTC)", 1),
    Column("last read (UTC)", 4),
)
_ENTITY_COLUMNS = (
    Column("entity"),
    Column("channel", 3),
    Column("rows"),
    Column("deleted", 2),
    Column("suspect"),
    Column("applied", 1),
    Column("state"),
)
_EVENT_COLUMNS = (Column("table"), Column("rows"), Column("problems", 1), Column("newest event (UTC)", 2))
_TOPIC_COLUMNS = (
    Column("topic"),
    Column("rows"),
    Column("deleted", 3),
    Column("left the filter", 1),
    Column("applied", 2),
    Column("landed"),
    Column("last check (UTC)", 4),
)
_AGE = re.compile(r"(?P<number>\d{1,6})(?P<unit>[smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LEFT_OUT = "`sfcdc status --json` has all."


def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    stale_after: Annotated[
        str | None,
        typer.Option(
            "--fail-if-stale",
            metavar="AGE",
            help="Only say what was not read or not applied for longer than this (10m, 2h; two minutes at least).",
        ),
    ] = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print metrics in the text form of Prometheus instead of tables.")
    ] = False,
    serve: Annotated[
        int | None,
        typer.Option(
            "--serve", metavar="PORT", min=0, max=65_535, help="Serve these metrics on /metrics until interrupted."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="With --serve, listen on this address.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="With --serve, answer to this host name too."),
    ] = None,
) -> None:
    """Show each channel's checkpoint and each entity's table. Reads the tables only; makes no API calls.

    Exit code 1 when a table is damaged: each is named, with the command that mends it. (Metrics count them.)

    With --fail-if-stale, for cron and probes: exit code 0 and no output when every channel was read within that time,
    however quiet it is, no polled object has failed to be asked for longer, and nothing that was landed or polled has
    waited longer for being applied. Otherwise exit code 1 and one line that names the channels and entities. It
    notices, too, when Dagster is gone.

    With --prometheus or --serve the report is the same, as metrics; a scrape is answered with what was computed in the
    last fifteen seconds.
    """
    settings = load_settings()
    _check_alone(
        {
            "--json": as_json,
            "--fail-if-stale": stale_after is not None,
            "--prometheus": prometheus,
            "--serve": serve is not None,
        }
    )
    if serve is not None:
        _serve(settings, host, serve, allow_host or ())
        return
    if stale_after is not None:
        _fail_if_stale(settings, stale_after)
        return
    found = status_of(Warehouse(settings.warehouse), settings)
    if as_json:
        say(json.dumps(found.to_json()))
    elif prometheus:
        from sfcdc_assets.status.metrics import metrics_text  # noqa: PLC0415 - for this option alone

        say(metrics_text(found, settings.org), nl=False)
        return
    else:
        show(found)
    if found.damaged:
        raise typer.Exit(1)


def _check_alone(given: Mapping[str, bool]) -> None:
    """Raise `BadParameter` where more than one of the forms of the report is asked for."""
    forms = [option for option, is_given in given.items() if is_given]
    if len(forms) > 1:
        raise typer.BadParameter(f"cannot be combined with {forms[0]}.", param_hint=forms[1])


def _fail_if_stale(settings: Settings, age: str) -> None:
    """Raise `WarehouseStale` where something is older than the command allows."""
    option = "--fail-if-stale"
    found = _AGE.fullmatch(age)
    seconds = int(found["number"]) * _SECONDS[found["unit"]] if found else 0
    if seconds < LEAST_SECONDS:
        problem = f"{age!r} is no age of two minutes or more, written as 10m, 2h or 1d."
        raise typer.BadParameter(problem, param_hint=option)
    parts = list(stale_parts(Warehouse(settings.warehouse), settings, seconds, clock.now_ms()))
    if parts:
        raise WarehouseStale(parts, age)


def _serve(settings: Settings, host: str, port: int, names: Iterable[str]) -> None:
    """Serve metrics until interrupted. `names`: under which others than this machine ask. Raises `PortInUseError`."""
    from sfcdc_assets.status.metrics import metrics_text  # noqa: PLC0415 - for this option alone
    from sfcdc_assets.webserver.metrics import metrics_app, serving  # noqa: PLC0415
    from sfcdc_assets.webserver.same_origin import LOOPBACK  # noqa: PLC0415

    def compute() -> str:
        return metrics_text(status_of(Warehouse(settings.warehouse), settings), settings.org)

    with Interruption() as interruption, serving(metrics_app(compute, {*LOOPBACK, host, *names}), host, port) as bound:
        address = f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
        say(f"Metrics of {settings.warehouse} are on http://{address}/metrics (Ctrl+C ends it).", err=True)
        while not interruption.wait(3_600.0):
            pass
    say("Stopped.", err=True)


def show(status: WarehouseStatus) -> None:
    """Print the status as tables for a person."""
    console = Screen()
    channels = [
        (
            each.channel,
            str(each.position),
            str(each.complete_position),
            f"{each.repeated_deliveries:,}",
            each.landed_at or "never",
            each.read_at or "never",
        )
        for each in status.channels
    ]
    print_table("Channels", _CHANNEL_COLUMNS, channels, left_out=_LEFT_OUT)
    entities = [
        (
            entity.entity,
            (entity.channel or "-").removeprefix("/data/"),
            f"{entity.rows:,}",
            f"{entity.deleted:,}",
            f"{entity.suspects:,}",
            "-" if entity.applied is None else str(entity.applied),
            _state(entity) + (", a read is not applied" if entity.entity in status.refused_reads else ""),
        )
        for entity in status.entities
    ]
    if entities:
        print_table("Tables", _ENTITY_COLUMNS, entities, left_out=_LEFT_OUT)
    elif any(feeds_entities(each.channel) for each in status.channels):
        console.print("No entity was copied yet: `sfcdc sync --until-caught-up` begins, after `sfcdc doctor`.")
    if status.event_tables:
        events = [
            (each.table, f"{each.rows:,}", f"{each.problems:,}", each.newest_event or "-")
            for each in status.event_tables
        ]
        print_table("Events", _EVENT_COLUMNS, events, left_out=_LEFT_OUT)
    if status.topics:
        topics = [
            (
                each.topic,
                f"{each.rows:,}",
                f"{each.deleted:,}",
                f"{each.left:,}",
                "-" if each.applied is None else str(each.applied),
                str(each.landed),
                each.last_check or "never",
            )
            for each in status.topics
        ]
        print_table("PushTopics", _TOPIC_COLUMNS, topics, left_out=_LEFT_OUT)
    for line in remarks_on(status):
        console.print(as_set_here(line), markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{counted(status.quarantined, 'event')} in quarantine. Warehouse: {status.warehouse}, a copy of "
        f"{status.organization or 'no organization yet'}.",
        soft_wrap=True,
    )


def _state(entity: EntityStatus) -> str:
    if entity.damaged:
        return "damaged"
    if entity.snapshot is not None and not entity.snapshot.complete:
        return f"snapshot {entity.snapshot.number} at {counted(entity.snapshot.rows, 'row')}"
    if entity.not_fed:
        return "not fed"
    if entity.applied is None:
        return "not copied yet" if entity.snapshot is None else "snapshot taken, not built yet"
    if entity.new_channel:
        return f"to be read again for {entity.new_channel}"
    if Reason.OFF_CHANNEL in entity.open_suspects:
        return "off the channel"
    if entity.missed:
        return "to be read again"
    if entity.not_polled:
        return "not polled"
    if entity.up_to_date:
        return "up to date"
    return "reads waiting" if entity.channel == POLLED else "events waiting"
