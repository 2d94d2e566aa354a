"""The channels: what they carry, and whether the Pub/Sub API lets this user in, on this port or another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from sfcdc_assets.channel_kinds import PUBSUB
from sfcdc_assets.config import Settings
from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.wanted_entities import UnknownWantedEntity, check_wanted_entities
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.streams.errors import TransportUnavailable
from sfcdc_assets.transports import new_transport

SELECTION, WANTED, STREAM = "objects of {}", "SFCDC_ENTITIES", "stream of {}"
SECONDS = 15.0
OTHER_PORT = 443
"""Salesforce serves the Pub/Sub API there too, for networks that let nothing else through."""


def selection(channel: str, members: ChannelMembers | None) -> Finding:
    """What an administrator has selected."""
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
    for channel in settings.channels:
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
