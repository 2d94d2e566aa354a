"""What a run is about: its entities, their channels, and whether it asked for just what was touched."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from sfcdc_assets.config import Settings
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing.lander import LandedOnly, Lander, Poller
from sfcdc_assets.pipeline.org_connection import OrgConnection

TRIGGER_TAG = "sfcdc/trigger"
"""On runs that a sensor, a schedule or `sfcdc sync` asked for: of their range only what has work is done."""
SENSOR = "sensor"
"""The trigger of runs that work on what is landed, because their sensor has the channel's subscription."""
COMPLETE_THROUGH_TAG = "sfcdc/complete_through_ms"
"""What the sensor knew of the channel when it asked for the run: see `LandingReport.complete_through_ms`."""
FOLLOW_SECONDS_TAG = "sfcdc/follow_seconds"
"""On such runs: how long they go on with what the sensor lands meanwhile."""
CHANNEL_TAG = "sfcdc/channel"
"""The channel whose entities such a run is about."""
CONCURRENCY_TAG = "sfcdc/concurrency_key"
"""At most one run at a time in a lane (dagster.yaml)."""


def concurrency_key(channel: str, job: str) -> str:
    """A job on a channel: a long snapshot does not hold up the channel's events."""
    return f"{job} {channel}"


class UnknownEntity(SfcdcError):
    """A run names an entity that no configured channel carries."""

    def __init__(self, entity: str, channels: tuple[str, ...]) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no configured channel carries it ({', '.join(channels)}). Select it for Change Data Capture in "
            "the org's Setup, add its channel to SFCDC_CHANNELS, or add it to SFCDC_ENTITIES if that filters."
        )


@dataclass(frozen=True)
class RunScope:
    """`entities` maps each entity of the run to its channel, `known` all that there are."""

    entities: dict[str, str]
    known: dict[str, str]
    touched_only: bool

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of the entities, each once."""
        return tuple(dict.fromkeys(self.entities.values()))


def lander(context: dg.AssetExecutionContext, warehouse: Warehouse, org: OrgConnection, settings: Settings) -> Lander:
    """How a run lands: not at all if a sensor asked for it, by itself otherwise."""
    tags = context.run.tags
    if tags.get(TRIGGER_TAG) != SENSOR:
        return Poller(warehouse, org, settings.settle_seconds)
    return LandedOnly(warehouse, {tags[CHANNEL_TAG]: int(tags[COMPLETE_THROUGH_TAG])})


def run_scope(
    context: dg.AssetExecutionContext, warehouse: Warehouse, settings: Settings, org: OrgConnection
) -> RunScope:
    """Read a run's scope from its partition keys and tags. Raises `UnknownEntity` for a key a person asked for."""
    touched_only = TRIGGER_TAG in context.run.tags
    known = entity_channels(warehouse, settings.channels, settings.entities, org.members)
    wanted = list(context.partition_keys)
    channel = context.run.tags.get(CHANNEL_TAG)
    if touched_only:
        return RunScope(
            {key: known[key] for key in wanted if key in known and channel in (None, known[key])},
            known,
            touched_only=True,
        )
    for entity in wanted:
        if entity not in known:
            raise UnknownEntity(entity, settings.channels)
    return RunScope({key: known[key] for key in wanted}, known, touched_only=False)
