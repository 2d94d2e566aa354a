"""What a whole sync came to: the lines at its end, and the same for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sfcdc_assets.cli.syncing.sync_progress import SyncProgress
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables import gap_reconciliation
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.times import duration_text


@dataclass(frozen=True)
class SyncSummary:
    """Events landed, deliveries charged and of these the repeats, of events that had come before; entities read whole
    and their rows; records changed by kind; suspect records left in the warehouse, and
    healed by this sync; API requests; `lag_seconds`: from
    the commit in the org of the newest event of a batch until it was visible, the longest of all entities (None where
    no event was applied)."""

    events_landed: int
    deliveries: int
    repeated_deliveries: int
    snapshots: int
    snapshot_rows: int
    records_inserted: int
    records_updated: int
    records_deleted: int
    suspect_records: int | None
    healed_records: int
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
        return not (self.events_landed or self.snapshots or self.records_changed or self.healed_records)

    def to_json(self) -> dict[str, Any]:
        """JSON-able values."""
        return {"records_changed": self.records_changed, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """Yield the summary for a person."""
        kinds = {"inserted": self.records_inserted, "updated": self.records_updated, "deleted": self.records_deleted}
        changed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        repeated = self.repeated_deliveries
        again = f", {repeated:,} of them for events that had come before" if repeated else ""
        suspect = "not known" if self.suspect_records is None else f"{self.suspect_records:,}"
        rows = (
            ("events landed", f"{self.events_landed:,} ({counted(self.deliveries, 'delivery')} charged{again})"),
            ("snapshots", f"{self.snapshots:,} ({counted(self.snapshot_rows, 'row')})"),
            ("records changed", f"{self.records_changed:,}{f' ({changed})' if changed else ''}"),
            ("suspect records", f"{suspect}{f' ({self.healed_records:,} healed)' if self.healed_records else ''}"),
            ("API requests", f"{self.api_requests:,}"),
            ("lag", "no event was applied" if self.lag_seconds is None else duration_text(self.lag_seconds)),
            ("time", duration_text(self.seconds)),
        )
        yield from (f"{name + ':':<17}{value}" for name, value in rows)


def summary_of(progress: SyncProgress, warehouse: Warehouse, wanted: Collection[str] = ()) -> SyncSummary:
    """Sum up what was observed; suspect records are counted in the ledgers, for some may wait since an earlier sync.
    `wanted`: of these entities only, if not empty; nobody reads those of others back."""
    entities = progress.entities.values()
    lags = [each.lag_seconds for each in entities if each.lag_seconds is not None]
    return SyncSummary(
        events_landed=progress.landed,
        deliveries=progress.delivered,
        repeated_deliveries=progress.repeats,
        snapshots=sum(each.snapshots for each in entities),
        snapshot_rows=sum(each.rows for each in entities if each.snapshots),
        records_inserted=sum(each.inserted for each in entities),
        records_updated=sum(each.updated for each in entities),
        records_deleted=sum(each.deleted for each in entities),
        suspect_records=suspect_records(warehouse, wanted),
        healed_records=sum(each.healed for each in entities),
        api_requests=progress.requests,
        lag_seconds=max(lags, default=None),
        seconds=round(progress.seconds, 3),
    )


def suspect_records(warehouse: Warehouse, wanted: Collection[str] = ()) -> int | None:
    """Entries that are open in the ledgers of all entities, or of those that are wanted; None where one is damaged:
    `sfcdc status` names it, and what stopped the sync has its own message."""
    known = warehouse.entities(gap_reconciliation.LAYER)
    ledgers = (Ledger.open(warehouse, entity) for entity in known if not wanted or entity in wanted)
    try:
        return sum(sum(ledger.counts().values()) for ledger in ledgers if ledger is not None)
    except TableDamaged:
        return None
