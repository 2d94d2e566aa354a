"""How old each channel's checkpoint is: Salesforce keeps events for 72 hours, and resumes nowhere before."""

from __future__ import annotations

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.raw_events import NAME
from sfcdc_assets.lake.stored_checkpoint import StoredCheckpoint
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

CHECKPOINT = "checkpoint of {}"
HOURS_KEPT, HOURS_OLD = 72.0, 48.0
_POLL = "Poll at least every three days: let the sensors run, or `sfcdc sync` from cron."


def checkpoint(warehouse: Warehouse, channel: str, now_ms: int) -> Finding:
    """From the tables alone."""
    try:
        table = Table.open(warehouse, NAME)
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
    if hours > HOURS_KEPT:
        fix = f"Run `sfcdc sync`: every entity of the channel is snapshotted again. {_POLL}"
        return failed(check, f"{found[0].upper()}{found[1:]}: Salesforce has deleted events after it.", fix)
    if hours > HOURS_OLD:
        left = HOURS_KEPT - hours
        return warning(check, f"{found}; events after it are kept for {left:.0f} more hours.", _POLL)
    return ok(check, found)
