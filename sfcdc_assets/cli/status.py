"""`sfcdc status`: where the channels and tables stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import typer

from sfcdc_assets.cli.terminal.fitting_table import Column, print_table
from sfcdc_assets.cli.terminal.interruption import Interruption
from sfcdc_assets.cli.terminal.output import Screen, say
from sfcdc_assets.entities.refused_reads import sentences
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.polls.polled_objects import reasons
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.channel_kinds import POLLED, feeds_entities
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.status.staleness import LEAST_SECONDS, WarehouseStale, stale_parts
from sfcdc_assets.status.status import status_of
from sfcdc_assets.status.status_report import (
    ChannelStatus,
    EntityStatus,
    FormulaStatus,
    LostCheckpointStatus,
    PrivacyStatus,
    WarehouseStatus,
)
from sfcdc_assets.timeline.suspect import Reason

LOST_CHECKPOINTS_SHOWN = 5
UNREAD_SECONDS = 3_600
"""After so long without an answer of a channel, "up to date" in the tables is as of then, which is said."""
NEXT_SHOWN = 3
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
    for line in _remarks(status):
        console.print(as_set_here(line), markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{counted(status.quarantined, 'event')} in quarantine. Warehouse: {status.warehouse}, a copy of "
        f"{status.organization or 'no organization yet'}.",
        soft_wrap=True,
    )


def _remarks(status: WarehouseStatus) -> Iterator[str]:
    for channel in status.channels:
        yield from _of_channel(channel, status.at)
    for damage in status.damaged:
        yield damage.message
    if status.waiting:
        yield _waiting(status.waiting)
        if status.waiting_because:
            yield f"No copy was begun at the last look: {status.waiting_because}."
    yield from sentences(status.refused_reads)
    for why in sorted({entity.not_fed for entity in status.entities if entity.not_fed}):
        yield _not_fed([entity.entity for entity in status.entities if entity.not_fed == why], why)
    for entity in status.entities:
        yield from _of_entity(entity)
    for purpose, requests in status.requests.items():
        if requests.waiting:
            noun = "object waits" if len(requests.waiting) == 1 else "objects wait"
            yield (
                f"{len(requests.waiting)} {noun} for {purpose} since {requests.waiting_since}, because "
                f"{requests.waiting_because}: {_some(requests.waiting)}."
            )
    if status.left_out:
        yield f"SFCDC_POLL leaves out {reasons(status.left_out)}"
    if status.without_asset:
        lacks = "has no asset of its own" if len(status.without_asset) == 1 else "have no assets of their own"
        yield (
            f"{_some(status.without_asset)} {lacks} in Dagster yet: load the code location again (Deployment, Reload)."
        )
    yield from _formulas(status.formulas)
    yield from _privacy(status.privacy)


def _of_channel(channel: ChannelStatus, at: str | None) -> Iterator[str]:
    if channel.pending:
        yield (
            f"{channel.channel}: {counted(channel.pending, 'event')} delivered that could not be landed yet "
            f"({(channel.pending_reason or '').rstrip('.')}). They are kept, and the next try lands them."
        )
    if channel.stopped_because:
        yield (
            f"{channel.channel}: no object could be asked since {channel.stopped_since}: "
            f"{channel.stopped_because.rstrip('.')}. Changes after that are not in the tables yet."
        )
    elif channel.read_at and at and _seconds(channel.read_at, at) > UNREAD_SECONDS:
        yield (
            f"{channel.channel} was last read at {channel.read_at}; what has happened in the org since is in no "
            "table. See whether Dagster, or what calls `sfcdc sync`, is at work."
        )
    for lost in channel.lost_checkpoints[:LOST_CHECKPOINTS_SHOWN]:
        yield f"{channel.channel}: {_lost_checkpoint(channel.channel, lost)}"
    if len(channel.lost_checkpoints) > LOST_CHECKPOINTS_SHOWN:
        yield f"{channel.channel}: --json lists all {len(channel.lost_checkpoints)} lost checkpoints."


def _of_entity(entity: EntityStatus) -> Iterator[str]:
    for why in entity.missed:
        yield f"{why}. It is suspect until it was read again; put back what was taken away, and that follows."
    if entity.filter_expression:
        yield _filtered(entity)
    if entity.not_polled:
        until = f", and what was changed since {entity.polled_until} is not known" if entity.polled_until else ""
        yield f"{entity.entity} could not be polled{until}: {entity.not_polled.rstrip('.')}. It is asked again."
    if entity.not_counted:
        yield (
            f"{entity.entity}: what was deleted for good, or changed without a stamp, is not known: "
            f"{entity.not_counted.rstrip('.')}. It is looked for again."
        )


def _some(names: Sequence[str]) -> str:
    """Return the first ones, and that there are others."""
    return f"{', '.join(names[:NEXT_SHOWN])}{' and others' if len(names) > NEXT_SHOWN else ''}"


def _seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def _formulas(formulas: Mapping[str, FormulaStatus]) -> Iterator[str]:
    for entity, each in formulas.items():
        said = [f"the oldest values were read at {each.oldest}" if each.oldest else "no value was read yet"]
        waiting = f"waiting for the next budget (SFCDC_FORMULA_PERCENT): {counted(each.postponed, 'record')}"
        said += [waiting] if each.postponed else []
        said += [f"the last look failed ({each.error.rstrip('.')})"] if each.error else []
        if each.formulas or each.error:
            yield f"{entity}: {counted(each.formulas, 'formula')}; {'; '.join(said)}."
        for name, why in each.withheld.items():
            yield f"{entity}.{name}: this formula is withheld, because {why}."


def _waiting(waiting: Mapping[str, int | None]) -> str:
    """Return the entities that are not copied yet, and which of them are next."""
    known = [records for records in waiting.values() if records is not None]
    size = f", about {counted(sum(known), 'record')}" if known else ""
    unknown = f" and {len(waiting) - len(known)} of unknown size" if known and len(known) < len(waiting) else ""
    noun = "entity waits" if len(waiting) == 1 else "entities wait"
    return f"{len(waiting)} {noun} for a snapshot{size}{unknown}; next: {', '.join(list(waiting)[:NEXT_SHOWN])}."


def _not_fed(entities: Sequence[str], why: str) -> str:
    verb, tables = ("is", "its tables stay") if len(entities) == 1 else ("are", "their tables stay")
    return f"{_some(entities)} {verb} not fed by these settings, and {tables} as they are: {why}."


def _filtered(entity: EntityStatus) -> str:
    audited = f"last audited {entity.last_audit}" if entity.last_audit else "never audited"
    return (
        f"{entity.entity}: {entity.channel} filters its events ({entity.filter_expression}); changes outside the "
        f"filter are found by the audit only, {audited}."
    )


def _lost_checkpoint(channel: str, lost: LostCheckpointStatus) -> str:
    what = (
        f"the checkpoint was lost at position {lost.position} ({lost.reason.rstrip('.')}); what happened from "
        f"{lost.bridged_from or 'the beginning'} to {lost.bridged_to} "
    )
    if not feeds_entities(channel):
        if lost.bridged:
            return f"{what}was still kept and is in the table."
        return f"{what}may be missing: the stream was begun again at the earliest event that Salesforce still kept."
    if lost.bridged:
        return f"{what}is bridged: every entity was read again since."
    return f"{what}is not bridged yet: {', '.join(lost.waiting)} will be read again by the next `sfcdc sync` or tick."


def _privacy(status: PrivacyStatus) -> Iterator[str]:
    for entity in sorted({*status.left_out, *status.hashed}):
        parts = [
            f"{counted(len(of_entities[entity]), 'column')} {words}"
            for of_entities, words in ((status.left_out, "left out"), (status.hashed, "hashed"))
            if of_entities.get(entity)
        ]
        yield f"{entity}: {', '.join(parts)} for privacy; --json names them."
    for entity, tables in status.conflicts.items():
        yield f"{entity}: {', '.join(tables)} were written with other settings of SFCDC_EXCLUDE, SFCDC_HASH or its key."
    for rule in status.rules_without_column:
        yield f"SFCDC_EXCLUDE or SFCDC_HASH: {rule} names no column of an entity that is known."


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
