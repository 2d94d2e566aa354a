"""How old each channel's checkpoint is: Salesforce keeps events for 72 hours (those of PushTopics and generic channels
for 24), and resumes nowhere before."""

from __future__ import annotations

from sfcdc_assets.channel_kinds import carries_changes, kind_of, table_of
from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.stored_checkpoint import StoredCheckpoint
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

CHECKPOINT = "checkpoint of {}"
SHARE_OLD = 2 / 3
"""Of the time for which events are kept: a checkpoint that is older than that is warned of."""
_POLL = "Poll more often than that: let the sensors run, or `sfcdc sync` from cron."
_BEGUN_AGAIN = "the stream is begun again at the earliest event that is kept, and older ones are missing"


def checkpoint(warehouse: Warehouse, channel: str, now_ms: int) -> Finding:
    """From the tables alone."""
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
        again = "every entity of the channel is snapshotted again" if carries_changes(channel) else _BEGUN_AGAIN
        fix = f"Run `sfcdc sync`: {again}. {_POLL}"
        return failed(check, f"{found[0].upper()}{found[1:]}: Salesforce has deleted events after it.", fix)
    if hours > kept * SHARE_OLD:
        left = kept - hours
        return warning(check, f"{found}; events after it are kept for {left:.0f} more hours.", _POLL)
    return ok(check, found)
