"""One sensor a channel: land what its open subscription has brought, then ask for the runs that the tables need.

These are two things, and the second does not depend on the first: while a stream fails, what has landed is applied,
read back and copied as ever. `sfcdc sync` does both with the same functions.

The sensor lands what it reads, because Salesforce meters deliveries and an event that was only peeked at would be paid
for twice; the runs it asks for work on what is landed. What work there is comes from the tables: a run that failed, or
an instance that forgot everything, changes nothing about what the next tick finds to do.
"""

import atexit
from collections.abc import Callable, Collection, Mapping
from functools import partial

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from sfcdc_assets.landing.poll_timeouts import TICK, PollTimeouts
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.orchestration.jobs.run_config import SNAPSHOT, SYNC
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors.due import due
from sfcdc_assets.orchestration.sensors.entities_since_load import with_entities_since_load
from sfcdc_assets.orchestration.sensors.instance_of_ticks import instance_of
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.settings.channel_kinds import feeds_entities, folder_of, is_polled, kind_of
from sfcdc_assets.spark.own_standing_spark import OwnStandingSpark

INTERVAL_SECONDS = 1
"""Less than the five seconds of the daemon's loop, which looks at each sensor once: with as much as these, a tick that
began a moment late is found too recent by the next loop, and ten seconds pass between two ticks."""
REST_SECONDS = 20.0
"""How long a tick waits in all for requests that the org does not answer; with the stream's share less than the minute
after which Dagster calls the code server unreachable."""

OPEN_CHANNELS = OpenChannels(lands_between_ticks=True)
"""Those of this process's sensors."""
OWN_SPARK = OwnStandingSpark()
"""For the runs that they ask for."""
atexit.register(OPEN_CHANNELS.close)
atexit.register(OWN_SPARK.end)


def build_channel_sensor(
    assets: OrgAssets,
    channel: str,
    jobs: Mapping[str, dg.JobDefinition],
    layers: UnresolvedAssetJobDefinition,
    own_assets: Collection[str],
) -> dg.SensorDefinition:
    """Return the sensor of one channel; on unless switched off in the UI. `layers`: a job of the assets that it feeds,
    on whose pages Dagster then lists it. `own_assets`: the entities that have an asset of their own."""

    has_changes = feeds_entities(channel)
    named = folder_of(channel) if has_changes else f"{kind_of(channel)}_{folder_of(channel)}"
    then = (
        "adds entities as partitions, and asks for one run over the entities that have work"
        if has_changes
        else "and reports what came; no run follows, as each event stands for itself"
    )

    @dg.sensor(
        name=assets.name("poll_" + named.replace("-", "_")),
        jobs=[jobs[SYNC], jobs[SNAPSHOT], layers] if has_changes else None,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            f"Asks the polled objects that are due for what changed, {then}."
            if is_polled(channel)
            else f"Keeps a subscription to {channel} open, lands what it brings, {then}."
        ),
    )
    def poll(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        def warn(line: str) -> None:
            context.log.warning(line)  # asked for only now: the log opens an instance of its own

        warehouse, settings = assets.warehouse(), assets.settings()
        if has_changes:
            OWN_SPARK.look(settings)  # first of all: it starts while the channel is read
        with unanswered_at_most(UnansweredTime(REST_SECONDS)):
            opened = OPEN_CHANNELS.of(channel, warehouse, settings, partial(assets.connect, warehouse), assets.begins)
            try:
                result = tick(assets, instance_of(context), channel, opened, TICK, warn)
            except OF_THE_LOGIN:
                OPEN_CHANNELS.drop(channel, assets.begins)
                raise
            return with_entities_since_load(opened, own_assets, result) if has_changes else result

    return poll


def tick(
    assets: OrgAssets,
    instance: dg.DagsterInstance,
    channel: str,
    opened: OpenChannel,
    timeouts: PollTimeouts,
    warn: Callable[[str], object] = lambda _line: None,
) -> dg.SensorResult:
    """One tick: read the channel, then say what is due.

    A refused token, an unknown channel or an outage fails the tick with its reason, unless the look has found work: a
    tick that fails asks for no run, so the run comes first, and `warn` is given the reason.
    """
    with opened.in_use():
        reading = opened.read(timeouts)
        try:
            result = due(assets, instance, opened, reading, timeouts)
        except Exception as error:
            raise reading.failure or error from error
    if reading.failure is not None:
        if not result.run_requests:
            report_directly(instance, result)
            raise reading.failure
        warn(f"{channel}: the stream could not be read, what has landed is worked on. {reading.failure}")
    return result


def report_directly(instance: dg.DagsterInstance, result: dg.SensorResult) -> None:
    """Give Dagster the partitions and reports of a result which it is not given as one: of a tick that fails it takes
    nothing."""
    for added in result.dynamic_partitions_requests or ():
        instance.add_dynamic_partitions(added.partitions_def_name, list(added.partition_keys))
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
