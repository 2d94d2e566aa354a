"""How many living rows a snapshot no longer shows, though no event reported their delete (guarantee 9).

Ids are compared range by range: memory holds those of some key-range files, and no page is read from the org again.

A person may say that they are really gone (`accept`). What was accepted is in the snapshot table, or in what is read
back next, like any other read of the org: a rebuild comes to the same rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.untrusted_rows import VanishLimits

IDS_AT_ONCE = 500_000
TELL_OF_DELETES = ("DELETE", "GAP_DELETE")


class RowsVanished(SfcdcError):
    """A snapshot was read whole and is not applied, because too many living rows are not in it."""

    def __init__(self, entity: str, number: int, vanished: Vanished) -> None:
        self.entity = entity
        self.number = number
        self.vanished = vanished
        super().__init__(f"{entity}: {why(number, vanished)} {remedy(entity)}")


@dataclass(frozen=True)
class Vanished:
    """Living rows that a read should show, and how many of them it does not."""

    rows: int
    living: int


def why(number: int, vanished: Vanished) -> str:
    """Return what is noted of a snapshot that is not believed."""
    return (
        f"snapshot {number} does not show {vanished.rows:,} of {vanished.living:,} living rows, and no event reported "
        "their delete; it is not applied."
    )


def remedy(entity: str) -> str:
    """Return what a person can do about records that vanished."""
    return (
        "If the user lost View All, give it back: the org is read again after a pause. If the records were really "
        f"deleted, run `sfcdc accept --entity {entity}`."
    )


def vanished_rows(
    warehouse: Warehouse,
    taken: Snapshots,
    progress: SnapshotProgress,
    last_page: pa.Table,
    suspected: Collection[str],
    limits: VanishLimits,
) -> Vanished | None:
    """Return what vanished with the snapshot of which only `last_page` is not landed yet; None while it is within
    limits.

    A row that stands for an event after the watermark is left out: the snapshot does not speak of it, and its events
    are applied again on top. So are records that are `suspected` one by one: they are read back.
    """
    table = CurrentState.open(warehouse, progress.entity)
    if table is None:
        return None
    comparable = "not _is_deleted"
    if taken.has_watermark_on(progress.channel):
        comparable += f" and _position <= {progress.position}"
    arriving = pl.concat([_ids(last_page), pl.Series("Id", sorted(suspected), pl.String)])
    gone: list[pl.Series] = []
    living = 0
    for window in table.id_windows(IDS_AT_ONCE):
        within = f" and {window.condition}" if window.condition else ""
        ours = _ids(table.table.scan(["Id"], comparable + within))
        shown = pl.concat([_ids(taken.ids_of(progress.snapshot_number, window)), arriving])
        living += ours.len()
        gone.append(ours.filter(~ours.is_in(shown.implode())))
    vanished = pl.concat(gone) if gone else pl.Series("Id", [], pl.String)
    if not limits.exceeded(vanished.len(), living):
        return None
    description = _keys_of(warehouse, table, progress)
    count = vanished.filter(~vanished.is_in(description.implode())).len()
    return Vanished(count, living) if limits.exceeded(count, living) else None


def _keys_of(warehouse: Warehouse, table: CurrentState, progress: SnapshotProgress) -> pl.Series:
    """Ids of records whose delete was landed and is not in the table yet."""
    raw_events, channel = RawEvents.open(warehouse), progress.channel
    landed = raw_events.last_position(channel)
    wanted = ["record_ids", "change_type"]
    headers = raw_events.headers(progress.entity, channel, wanted, after=table.applied(channel) or 0, up_to=landed)
    frame = pl.DataFrame(headers)
    return frame.filter(pl.col("change_type").is_in(TELL_OF_DELETES))["record_ids"].explode().cast(pl.String)


def _ids(rows: pa.Table) -> pl.Series:
    return pl.Series("Id", pl.DataFrame(rows.select(["Id"]))["Id"], pl.String)


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
