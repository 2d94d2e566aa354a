"""What a whole sync came to: the lines at its end, and the same for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sfcdc_assets.cli.sync_progress import SyncProgress, duration
from sfcdc_assets.lake import gap_reconciliation
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse


@dataclass(frozen=True)
class SyncSummary:
    """Events landed and deliveries charged; entities read whole and their rows; records changed by kind; suspect
    records left in the warehouse; API requests; `lag_seconds`: from the commit in the org of the newest event of a
    batch until it was visible, the longest of all entities (None where no event was applied)."""

    events_landed: int
    deliveries: int
    snapshots: int
    snapshot_rows: int
    records_inserted: int
    records_updated: int
    records_deleted: int
    suspect_records: int | None
    api_requests: int
    lag_seconds: float | None
    seconds: float

    @property
    def records_changed(self) -> int:
        """Of every kind."""
        return self.records_inserted + self.records_updated + self.records_deleted

    @property
    def is_empty(self) -> bool:
        """Nothing was landed, read or changed."""
        return not (self.events_landed or self.snapshots or self.records_changed)

    def to_json(self) -> dict[str, Any]:
        """JSON-able values."""
        return {"records_changed": self.records_changed, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """For a person."""
        kinds = {"inserted": self.records_inserted, "updated": self.records_updated, "deleted": self.records_deleted}
        changed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        rows = (
            ("events landed", f"{self.events_landed:,} ({self.deliveries:,} deliveries charged)"),
            ("snapshots", f"{self.snapshots:,} ({self.snapshot_rows:,} rows)"),
            ("records changed", f"{self.records_changed:,}{f' ({changed})' if changed else ''}"),
            ("suspect records", "not known" if self.suspect_records is None else f"{self.suspect_records:,}"),
            ("API requests", f"{self.api_requests:,}"),
            ("lag", "no event was applied" if self.lag_seconds is None else duration(self.lag_seconds)),
            ("time", duration(self.seconds)),
        )
        yield from (f"{name + ':':<17}{value}" for name, value in rows)


def summary_of(progress: SyncProgress, warehouse: Warehouse) -> SyncSummary:
    """Of what was observed; suspect records are counted in the ledgers, for some may wait since an earlier sync."""
    entities = progress.entities.values()
    lags = [each.lag_seconds for each in entities if each.lag_seconds is not None]
    return SyncSummary(
        events_landed=progress.landed,
        deliveries=progress.delivered,
        snapshots=sum(each.snapshots for each in entities),
        snapshot_rows=sum(each.rows for each in entities if each.snapshots),
        records_inserted=sum(each.inserted for each in entities),
        records_updated=sum(each.updated for each in entities),
        records_deleted=sum(each.deleted for each in entities),
        suspect_records=_suspect_records(warehouse),
        api_requests=progress.requests,
        lag_seconds=max(lags, default=None),
        seconds=round(progress.seconds, 3),
    )


def _suspect_records(warehouse: Warehouse) -> int | None:
    """None where a ledger is damaged: `sfcdc status` names it, and what stopped the sync has its own message."""
    ledgers = (Ledger.open(warehouse, entity) for entity in warehouse.entities(gap_reconciliation.LAYER))
    try:
        return sum(sum(ledger.counts().values()) for ledger in ledgers if ledger is not None)
    except TableDamaged:
        return None
