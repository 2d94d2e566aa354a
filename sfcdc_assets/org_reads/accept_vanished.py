"""A person says that records which vanished from the org are really gone; the tables take it from here on.

What was accepted is in the snapshot table, or in what is read back next, like any other read of the org: a rebuild
comes to the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.timeline.suspect import Reason


class NothingToAccept(SfcdcError):
    """No read of the entity waits to be accepted."""

    def __init__(self, entity: str, refused: str | None) -> None:
        self.entity = entity
        self.refused = refused
        description = refused or "Every read of it is applied; `sfcdc status` names those that are not."
        super().__init__(f"{entity}: there is nothing to accept. {description}")


@dataclass(frozen=True)
class Accepted:
    """What was accepted: the number of a snapshot, how many records that were read back, and why they had waited."""

    entity: str
    snapshot: int | None
    records: int
    detail: str


@retry_on_conflict
def accept(warehouse: Warehouse, entity: str, now_ms: int) -> Accepted:
    """Believe the refused snapshot of the entity, and the absence of records that were read back. The next run applies
    it. Raises `NothingToAccept`."""
    ledger = Ledger.open(warehouse, entity)
    suspects = ledger.open_suspects() if ledger else []
    refusals = [suspect for suspect in suspects if suspect.refuses_a_read]
    vanished = [suspect for suspect in refusals if suspect.reason == Reason.VANISHED]
    if ledger is None or not vanished:
        raise NothingToAccept(entity, refusals[-1].detail if refusals else None)
    taken = Snapshots.open(warehouse, entity)
    snapshot = taken.accept(vanished[-1].channel, now_ms) if taken else None
    records = [suspect for suspect in suspects if suspect.not_believed]
    if records:
        ledger.accept_gone(records, now_ms)
    count = len({suspect.record_id for suspect in records})
    return Accepted(entity, snapshot.number if snapshot else None, count, vanished[-1].detail or "")
