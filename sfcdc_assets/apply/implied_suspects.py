"""Open entries about contacts that their accounts' rows show to have changed, or that are not in step with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sfcdc_assets.change_events.columns import hashed_fields
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.timeline.implied_change import (
    FLAG,
    POINTED_AT,
    POINTER,
    POINTING,
    SilentChange,
    known_by_hash,
    not_in_step,
)
from sfcdc_assets.timeline.suspect import NewSuspect, Reason


@retry_on_conflict
def suspect_others(
    warehouse: Warehouse, channel: str, silent: Sequence[SilentChange], pointer_key: HashKey | None = None
) -> int:
    """Note the records in the ledger of their own entity, whose next run reads them back; returns how many are new.

    `channel` is that of `silent`'s positions. An entity that was never copied needs no entry: its snapshot is still to
    come. One that follows another channel is read after all that has landed there.
    `pointer_key`: of the column that names the records, where it is hashed.
    """
    followed = _channel(warehouse) if silent else None
    if followed is None:
        return 0
    landed = RawEvents.open(warehouse).last_position(followed)
    suspects = [
        NewSuspect(each.record_id, Reason.SILENT_CHANGE, each.position if followed == channel else landed, each.detail)
        for each in known_by_hash(silent, _record_ids(warehouse) if pointer_key else (), pointer_key)
    ]
    return len(Ledger.open_or_create(warehouse, POINTED_AT).note(suspects, followed, landed, clock.now_ms()))


@retry_on_conflict
def compare_snapshots(warehouse: Warehouse, columns: Collection[str], key: HashKey | None = None) -> int:
    """Once after each snapshot of either entity, make suspect the contacts that are not in step with the accounts.

    `columns` are those of the entity that was just applied: only in an org with person accounts there is work.

    Their snapshots are taken one after the other, and an account may become a person between them: its event is in the
    one and the contact's flag is not in the other. `key`: of hashed columns. Returns how many entries are new.
    """
    if POINTER not in columns and FLAG not in columns:
        return 0
    accounts, contacts = CurrentState.open(warehouse, POINTING), CurrentState.open(warehouse, POINTED_AT)
    channel = _channel(warehouse)
    if accounts is None or contacts is None or channel is None:
        return 0
    if POINTER not in accounts.schema.names or FLAG not in contacts.schema.names:
        return 0
    ledger = Ledger.open_or_create(warehouse, POINTED_AT)
    versions = {f"snapshot:{table.table.name}": table.checkpoint(channel).snapshot for table in (accounts, contacts)}
    if all((ledger.table.transaction_version(name) or 0) >= version for name, version in versions.items()):
        return 0
    landed = RawEvents.open(warehouse).last_position(channel)
    wrong = not_in_step(
        accounts.table.frame([POINTER], f"not _is_deleted and {POINTER} is not null"),
        contacts.table.frame(["Id", FLAG], "not _is_deleted and not _in_doubt"),
        key if POINTER in hashed_fields(accounts.schema).names else None,
        key if FLAG in hashed_fields(contacts.schema).names else None,
    )
    suspects = [NewSuspect(each, Reason.SILENT_CHANGE, landed, "not in step with its account") for each in wrong]
    return len(ledger.note(suspects, channel, landed, clock.now_ms(), versions))


def _record_ids(warehouse: Warehouse) -> Sequence[str]:
    state = CurrentState.open(warehouse, POINTED_AT)
    return [] if state is None else state.table.scan(["Id"], "Id is not null")["Id"].to_pylist()


def _channel(warehouse: Warehouse) -> str | None:
    """Return the channel that the pointed-at entity follows; None while it was never copied."""
    taken = Snapshots.open(warehouse, POINTED_AT)
    if taken is None:
        return None
    landed = RawEvents.open(warehouse).channels()
    return next((channel for channel in landed if taken.has_watermark_on(channel) or taken.begun_on(channel)), None)
