"""Whether the copy is kept up at all, for an alarm outside of Dagster: a sensor that is evaluated no more fails no
tick, and the sensors that would raise an alarm live in the process that is gone.

All of it is in the warehouse: when each channel was last read (`channels_read`, and what was landed last), and which
landed events wait to be applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfcdc_assets.entities.freshness import lags
from sfcdc_assets.entities.unpolled_objects import unpolled_objects
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.store.channel_reads import NOTE_SECONDS, last_read_ms
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landed_table import LandedTable
from sfcdc_assets.lake.tables.raw_events import NAME as RAW_EVENTS_NAME
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.runtime.times import seconds_text, utc
from sfcdc_assets.settings.channel_kinds import feeds_entities
from sfcdc_assets.settings.settings import Settings

LEAST_SECONDS = 2 * NOTE_SECONDS
"""Of what is noted once a minute a shorter age says nothing."""


class WarehouseStale(SfcdcError):
    """Channels were not read, or landed events not applied, for longer than was asked for."""

    def __init__(self, parts: Sequence[str], limit: str) -> None:
        self.parts = tuple(parts)
        super().__init__(
            f"Stale for longer than {limit}: {'; '.join(parts)}. Look whether Dagster's daemon and the code server are "
            "at work and what the last ticks and runs say; `sfcdc sync` goes on in this process."
        )


def read_at_ms(warehouse: Warehouse, channel: str, table: LandedTable | None) -> int | None:
    """Return when a reading of the channel was last answered, or landed something (epoch ms, UTC; a minute ago at most
    while it is read); None for never. `table`: in which it lands, None where there is none yet."""
    landed = table.stored_checkpoint(channel).landed_at if table is not None else None
    return max(filter(None, (last_read_ms(warehouse, channel), landed)), default=None)


def unread_channels(
    warehouse: Warehouse, settings: Settings, seconds: float, now_ms: int
) -> Iterator[tuple[str, int | None]]:
    """Yield the channels that were not read for longer than so many seconds, each with when it was (epoch ms, UTC);
    None for never."""
    raw = Table.open(warehouse, RAW_EVENTS_NAME)
    events = RawEvents(raw, warehouse) if raw is not None else None
    for channel in settings.channels:
        at = read_at_ms(warehouse, channel, events if feeds_entities(channel) else EventTable.open(warehouse, channel))
        if at is None or now_ms - at > seconds * 1000:
            yield channel, at


def stale_parts(warehouse: Warehouse, settings: Settings, seconds: float, now_ms: int) -> Iterator[str]:
    """Yield what was not read or polled, or waits to be applied, for longer than so many seconds, each with since when.
    An entity that was never copied is not among them: `sfcdc status` and the run that copies say how far that is."""
    for channel, at in unread_channels(warehouse, settings, seconds, now_ms):
        if at is None:
            yield f"{channel} was never read"
        else:
            moment = seconds_text(utc(at))
            yield f"{channel} was last read {_ago(now_ms - at)} ago ({moment})"
    for each in unpolled_objects(warehouse, settings, seconds, now_ms):
        yield f"{each}: its changes were last seen {_ago(now_ms - each.seen_until_ms)} ago"
    for lag in lags(warehouse, settings, now_ms):
        if lag.seconds > seconds:
            waiting = "waits" if lag.events == 1 else "wait"
            yield (
                f"{counted(lag.events, lag.kind)} of {lag.entity} {waiting} to be applied, the oldest for "
                f"{_ago(round(lag.seconds * 1000))}"
            )


def _ago(ms: int) -> str:
    minutes = ms // 60_000
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{minutes // 1440} days"
