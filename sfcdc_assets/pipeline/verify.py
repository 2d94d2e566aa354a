"""The audit: an entity's table against the org, record by record and field by field.

The org goes on changing while it is read, so only what the table can know is compared: records that the stream names
after the position the table stands at are in motion and are left out, and counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import polars as pl

from sfcdc_assets.change_events.columns import columns_of_arrow_schema
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.current_state import SnapshotMissing
from sfcdc_assets.pipeline.landing import DRAIN_SECONDS, SETTLE_SECONDS, Lander
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.reconciliation.compare import EXTRA, MISSING, Difference, different_values, one_sided
from sfcdc_assets.snapshot.pages import read_pages, start

HELD = 100_000
"""Differences held in memory while reading; beyond it the count goes on and the report says so."""


@dataclass
class VerifyReport:
    """What was compared: live records of the org and of the table, records in motion (left out), differences."""

    entity: str
    position: int
    in_org: int = 0
    in_table: int = 0
    in_motion: int = 0
    values_compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    cut_off: bool = False
    """True when there were more differences than are listed."""
    calls: int = 0
    seconds: float = 0.0

    def add(self, found: list[Difference]) -> None:
        """Hold differences, up to `HELD`."""
        self.cut_off = self.cut_off or len(self.differences) + len(found) > HELD
        self.differences.extend(found[: HELD - len(self.differences)])


def verify_entity(warehouse: Warehouse, org: Org, lander: Lander, entity: str, channel: str) -> VerifyReport:
    """Read the entity whole from the org and compare. Memory holds one page, and the Ids of both sides.

    Raises `SnapshotMissing` for an entity that has no table yet.
    """
    started, calls = time.monotonic(), org.session.calls
    table = CurrentState.open(warehouse, entity)
    taken = Snapshots.open(warehouse, entity)
    if table is None or taken is None:
        raise SnapshotMissing(entity)
    position = table.applied(channel) or 0
    columns = columns_of_arrow_schema(table.schema)
    progress = start(org.session, entity, columns, channel=channel, position=position, snapshot_number=0)
    report = VerifyReport(entity, position)
    seen: list[pl.Series] = []
    for page, after in read_pages(org.session, progress, columns):
        rows = pl.DataFrame(page).filter(~pl.col("_is_deleted").fill_null(False))
        if rows.is_empty():
            continue
        seen.append(rows["Id"])
        low, high = str(rows["Id"].min()), str(rows["Id"].max())
        ours = pl.DataFrame(table.table.scan(predicate=f"Id >= '{low}' and Id <= '{high}' and not _is_deleted"))
        compared = [column.name for column in columns if column.name in after.fields and column.name != "Id"]
        report.in_org += rows.height
        report.values_compared += rows.height * len(compared)
        report.add(different_values(entity, rows, ours, compared))
        report.add(one_sided(entity, rows.join(ours, on="Id", how="anti")["Id"].to_list(), MISSING))
    live = pl.DataFrame(table.table.scan(["Id"], "not _is_deleted"))
    report.in_table = live.height
    org_ids = pl.concat(seen) if seen else pl.Series("Id", [], pl.String)
    report.add(one_sided(entity, live.join(org_ids.to_frame("Id"), on="Id", how="anti")["Id"].to_list(), EXTRA))
    lander.land(channel, settle=SETTLE_SECONDS, budget=DRAIN_SECONDS)
    moving = RawEvents.open(warehouse).record_ids_after(entity, channel, position)
    report.in_motion = len(moving)
    report.differences = [found for found in report.differences if found.record_id not in moving]
    report.calls, report.seconds = org.session.calls - calls, time.monotonic() - started
    return report
