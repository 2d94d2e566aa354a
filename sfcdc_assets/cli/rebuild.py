"""`sfcdc rebuild`: an entity's tables, a PushTopic's state or a channel's columns, again from what was landed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from sfcdc_assets.apply.ready_spark import ready_spark
from sfcdc_assets.cli.syncing.verify_topics import compare_topics, topic_channels
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.cli.terminal.stopping import stops_at_once
from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.event_channels.payload_schema import payload_schemas
from sfcdc_assets.event_channels.tables.filter_check import check_topic
from sfcdc_assets.event_channels.tables.rebuild_topic import rebuild_topic
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.event_readers import event_reader
from sfcdc_assets.landing.retype_events import type_again
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_connection.run_context import OrgRunContext, RunContext
from sfcdc_assets.org_connection.same_organization import accept_organization, check_accepted, claim_warehouse
from sfcdc_assets.org_connection.wanted_entities import check_wanted_entities, entity_named
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.reconciliation.rebuild import RebuildReport, applying, channel_of, rebuild_entity, rebuild_from_org
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError, counted
from sfcdc_assets.settings.channel_kinds import ChannelKind, kind_of
from sfcdc_assets.settings.settings import Settings, load_settings


class RebuildFailed(SfcdcError):
    """Some of several entities could not be rebuilt, or one for a reason that no other message has."""

    def __init__(self, failed: Mapping[str, Exception]) -> None:
        self.failed = failed
        lines = {
            entity: str(error).strip().partition("\n")[0] or type(error).__name__ for entity, error in failed.items()
        }
        reasons = "; ".join(f"{entity}: {line.removesuffix('.')}" for entity, line in lines.items())
        super().__init__(
            f"Not rebuilt, and their tables are as they were: {reasons}. The others are done. Remove the cause and "
            f"run `sfcdc rebuild {' '.join(f'--entity {entity}' for entity in failed)}`."
        )


@stops_at_once
def rebuild(
    *,
    entity: Annotated[
        list[str] | None, typer.Option(metavar="ENTITY", help="Rebuild this entity; may be given several times.")
    ] = None,
    from_org: Annotated[
        bool,
        typer.Option("--from-org", help="Read the entity from the org again instead."),
    ] = False,
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept-organization",
            metavar="00D...",
            help="With --from-org: give the warehouse to this organization, the one that the settings lead to. Every "
            "entity is read again, and rows that it does not have end as deleted.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Rebuild the state of this PushTopic; may be given several times."),
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="Type the events of this generic channel, or of this one of platform events, again: columns that its "
            "description has gained get the values of older events; may be given several times.",
        ),
    ] = None,
) -> None:
    """Rebuild an entity's tables from stored events and snapshots, to the same rows, or from a new snapshot.

    They are built beside the present ones and take their place at the end: a rebuild that fails or is stopped changes
    nothing. Asks the org for what is new in its stream only, or, with --from-org, for a new snapshot, with which
    history begins again. A PushTopic's state is built from its notifications, then compared with the topic's query.
    With --channel, rows change in place, file by file.
    """
    from sfcdc_assets.cli.local_dagster.drive import sync_channels  # noqa: PLC0415 - Dagster is slow to load
    from sfcdc_assets.cli.local_dagster.instance import dagster_instance  # noqa: PLC0415

    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    entities = entity or []
    topics = topic_channels(settings, topic) if topic else []
    channels = channel or []
    for each in channels:
        _check_channel(settings, each)
    if not entities and accept is None and not topics and not channels:
        remedy = "Name the entities to rebuild, PushTopics with --topic, or channels with --channel"
        raise SettingsError("--entity", "is not given", remedy)
    if accept is not None and not from_org:
        raise SettingsError("--accept-organization", "goes with --from-org only", "Add it: every entity is read again")
    known = warehouse.entities("snapshot")
    entities = [entity_named(name, known, "it has no snapshot to rebuild from") for name in entities]
    warehouse.check_writable()
    _claim(warehouse, settings, accept)
    _rebuild(warehouse, settings, entities, from_org=from_org)
    for each in topics:
        report = rebuild_topic(warehouse, each)
        say(f"{each}: rebuilt, {counted(report.rows, 'row')} as of position {report.position}.", err=True)
    if topic:
        compare_topics(topic, check_topic)
    for each in channels:
        _type_again(warehouse, settings, each)
    if not entities and accept is None and not topics:
        return  # nothing of the stream was passed over
    # In other channels nothing was passed over.
    fed = {channel_of(warehouse, each, settings.feeding_channels) for each in entities}
    only = None if accept is not None or topics else fed
    with dagster_instance() as instance:
        sync_channels(instance, until_caught_up=True, report=lambda line: say(line, err=True), only=only)


def _type_again(warehouse: Warehouse, settings: Settings, channel: str) -> None:
    """Type the events of the channel again, and say what came of it."""
    with open_org(warehouse, settings) as org:
        typed = type_again(warehouse, channel, event_reader(warehouse, org, channel))
    kept = f"; {typed.without_bytes:,} stay as they are, as their bytes were not kept" if typed.without_bytes else ""
    kept += f"; {typed.unknown:,} do, as the org does not give out now what their fields are" if typed.unknown else ""
    say(f"{channel}: {counted(typed.rows, 'event')} read, {typed.changed:,} typed differently{kept}.", err=True)


def _check_channel(settings: Settings, channel: str) -> None:
    """Check that events of the channel can be typed again. Raises `SettingsError`."""
    if channel not in settings.event_channels:
        known = ", ".join(each for each in settings.event_channels if "/topic/" not in each) or "none"
        raise SettingsError("--channel", f"{channel} is no channel of events in SFCDC_CHANNELS", f"Such are: {known}")
    kind = kind_of(channel)
    if kind is ChannelKind.PUSH_TOPIC:
        raise SettingsError("--channel", f"{channel} is a PushTopic", "Rebuild its state with --topic")
    if kind is ChannelKind.GENERIC and channel not in payload_schemas(settings.channel_schemas):
        raise SettingsError(
            "--channel", f"no file in SFCDC_CHANNEL_SCHEMAS describes {channel}", "Write one, and set the folder"
        )


def _rebuild(warehouse: Warehouse, settings: Settings, entities: Sequence[str], *, from_org: bool) -> None:
    """Build each entity again, and say when it is in place."""
    if not entities:
        return
    # Spark comes first: its JVM is forked from this process, where no connection of gRPC is open yet.
    spark = ready_spark(settings)
    offline = RunContext(warehouse=warehouse, settings=settings, run_id="sfcdc rebuild", spark=lambda: spark)

    def one(entity: str) -> RebuildReport:
        if not from_org:
            channel = channel_of(warehouse, entity, settings.feeding_channels)
            return rebuild_entity(warehouse, entity, channel, applying(offline, entity, channel))
        with open_org(warehouse, settings) as org, Poller(warehouse, org, settings.settle_seconds) as lander:
            known = entity_channels(warehouse, settings.channels, (), org.members)
            if entity not in known:
                raise SettingsError("--entity", f"no channel carries {entity}", "Add one that does to SFCDC_CHANNELS")
            run = OrgRunContext.of(offline, org)
            return rebuild_from_org(run, entity, known[entity], Watermarks(run, lander))

    failed: dict[str, Exception] = {}
    for entity in entities:
        report = outcome_of(one, entity)
        if isinstance(report, Exception):
            failed[entity] = report
        else:
            kept = f", with {counted(report.kept, 'earlier version')} kept" if report.kept else ""
            say(f"{entity}: rebuilt, {counted(report.rows, 'row')} as of position {report.position}{kept}.", err=True)
    ours = [each for each in failed.values() if isinstance(each, SfcdcError)]
    if len(entities) == len(ours) == 1:
        raise ours[0]
    if failed:
        raise RebuildFailed(failed) from next(iter(failed.values()))


def _claim(warehouse: Warehouse, settings: Settings, accept: str | None) -> None:
    """Before anything else: the warehouse is this org's, or becomes it."""
    now_ms = clock.now_ms()
    with connect(settings) as org:
        organization_id = org.session.organization_id
        if accept is None:
            claim_warehouse(warehouse, organization_id, now_ms)
            check_wanted_entities(warehouse, settings, org)
            return
        check_accepted(accept, organization_id)
        if accept_organization(warehouse, organization_id, settings.channels, now_ms):
            say(
                f"The warehouse {warehouse.root} belongs to the organization {organization_id} from now on; every "
                "entity is read again.",
                err=True,
            )
