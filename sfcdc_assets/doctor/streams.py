"""The channels: what they carry, whether this user is let in, and how old each one's checkpoint is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.stream_checkpoint import StoredCheckpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.wanted_entities import UnknownWantedEntity, check_wanted_entities
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.settings.channel_kinds import PUBSUB, feeds_entities, is_polled, kind_of, table_of
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.errors import TransportUnavailable
from sfcdc_assets.streams.open_transport import new_transport

SELECTION, WANTED, STREAM = "objects of {}", "SFCDC_ENTITIES", "stream of {}"
SECONDS = 15.0
OTHER_PORT = 443
"""Salesforce serves the Pub/Sub API there too, for networks that let nothing else through."""


def selection(channel: str, members: ChannelMembers | None) -> Finding:
    """Check what an administrator has selected."""
    check = SELECTION.format(channel)
    if members is None:
        fix = "Give the user View Setup and Configuration; until then entities become known as their events come."
        return warning(check, "The org does not list them to this user.", fix)
    if not members.entities:
        fix = "Select objects in Setup, Change Data Capture, or add them to the custom channel."
        return failed(check, "No object is selected, so no event will come.", fix)
    filtered = f"; events of {', '.join(sorted(members.filters))} are filtered" if members.filters else ""
    return ok(check, f"{len(members.entities)}: {', '.join(members.entities)}{filtered}")


def wanted(warehouse: Warehouse, settings: Settings, org: OrgConnection) -> Finding:
    """Something will come of every name in SFCDC_ENTITIES."""
    if not settings.entities:
        return ok(WANTED, "not set: every entity of the channels is copied")
    try:
        check_wanted_entities(warehouse, settings, org)
    except UnknownWantedEntity as unknown:
        return of_error(WANTED, unknown)
    return ok(WANTED, f"{len(settings.entities)}: {', '.join(settings.entities)}")


def reachable(settings: Settings, org: OrgConnection) -> Iterator[Finding]:
    """Each channel, asked for by name."""
    for channel in (each for each in settings.channels if not is_polled(each)):
        check = STREAM.format(channel)
        over_pubsub = settings.transport_of(channel) == PUBSUB
        try:
            with closing(org.new_transport(channel)) as transport:
                transport.check_channel(channel, SECONDS)
            where = settings.pubsub_endpoint if over_pubsub else "the Streaming API (CometD)"
            yield ok(check, f"{where} lets the user subscribe")
        except TransportUnavailable as error:
            elsewhere = _on_the_other_port(settings, org, channel) if over_pubsub else None
            yield elsewhere or of_error(check, error)
        except SfcdcError as error:
            yield of_error(check, error)


def _on_the_other_port(settings: Settings, org: OrgConnection, channel: str) -> Finding | None:
    host, _, port = settings.pubsub_endpoint.rpartition(":")
    if int(port) == OTHER_PORT:
        return None
    endpoint = f"{host}:{OTHER_PORT}"
    there = settings.model_copy(update={"pubsub_endpoint": endpoint})
    try:
        with closing(new_transport(there, org.session, lambda _: None, channel)) as transport:
            transport.check_channel(channel, SECONDS)
    except SfcdcError:
        return None
    found = f"{settings.pubsub_endpoint} does not answer, and {endpoint} does: a firewall lets port {port} not through."
    return failed(STREAM.format(channel), found, f"Set SFCDC_PUBSUB_ENDPOINT={endpoint}.")


CHECKPOINT = "checkpoint of {}"
SHARE_OLD = 2 / 3
"""Of the time for which events are kept: a checkpoint that is older than that is warned of."""
_POLL = "Poll more often than that: let the sensors run, or `sfcdc sync` from cron."
_BEGUN_AGAIN = "the stream is begun again at the earliest event that is kept, and older ones are missing"


def checkpoint(warehouse: Warehouse, channel: str, now_ms: int) -> Finding:
    """Check the checkpoint, from the tables alone."""
    try:
        table = Table.open(warehouse, table_of(channel))
    except SfcdcError as error:
        return of_error(CHECKPOINT.format(channel), error)
    found = StoredCheckpoint.of(table, channel) if table is not None else StoredCheckpoint()
    reached_ms = found.known_at or found.landed_at or found.begun_at
    return checkpoint_age(channel, (now_ms - reached_ms) / 3_600_000 if reached_ms else None)


def checkpoint_age(channel: str, hours: float | None) -> Finding:
    """None: the channel was never polled."""
    check = CHECKPOINT.format(channel)
    if hours is None:
        return ok(check, "none: the channel was never polled")
    found = f"{hours:.1f} hours old" if hours >= 1 else f"{hours * 60:.0f} minutes old"
    kept = kind_of(channel).retention_ms / 3_600_000
    if hours > kept:
        again = "every entity of the channel is snapshotted again" if feeds_entities(channel) else _BEGUN_AGAIN
        fix = f"Run `sfcdc sync`: {again}. {_POLL}"
        return failed(check, f"{found[0].upper()}{found[1:]}: Salesforce has deleted events after it.", fix)
    if hours > kept * SHARE_OLD:
        left = kept - hours
        return warning(check, f"{found}; events after it are kept for {left:.0f} more hours.", _POLL)
    return ok(check, found)
