"""Who reads a channel: its stream, or the org for objects that are polled."""

from __future__ import annotations

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.landing.retry_pause import RetryPause
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.settings.channel_kinds import is_polled

Reader = ChannelReader | PolledReader


def reader_of(
    warehouse: Warehouse,
    org: OrgConnection,
    channel: str,
    settle_seconds: float,
    run_id: str = "",
    pause: RetryPause | None = None,
) -> Reader:
    """Return a reader of the channel; see `ChannelReader` for what it is given."""
    if is_polled(channel):
        return PolledReader(warehouse, org, pause)
    return ChannelReader(warehouse, org, channel, settle_seconds, run_id, pause)
