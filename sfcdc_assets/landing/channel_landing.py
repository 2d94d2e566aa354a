"""How a channel is landed, by its kind."""

from __future__ import annotations

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.change_event_landing import ChangeEventLanding
from sfcdc_assets.landing.event_landing import EventLanding
from sfcdc_assets.landing.event_readers import event_reader
from sfcdc_assets.landing.land import Landing
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.settings.channel_kinds import feeds_entities


def landing_of(warehouse: Warehouse, org: OrgConnection, channel: str, run_id: str = "") -> Landing:
    """Return the landing for one reader of the channel."""
    if feeds_entities(channel):
        return ChangeEventLanding(warehouse, org, channel, run_id)
    return EventLanding(warehouse, org, channel, event_reader(warehouse, org, channel), run_id)
