"""What healing came to: told by the doubt ledgers, the texts, and what the runs noted of their requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from sfcdc_assets.assets.keys import GAP_RECONCILIATION_KEY
from sfcdc_assets.lake import text_fields
from sfcdc_assets.lake.gap_reconciliation import Ledger
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

_PAGE = 500


@dataclass
class HealingFigures:
    """Doubts opened and healed by reason; records read back one by one and the API requests that took; the longest
    time from a doubt to its healing in seconds; large texts rebuilt from differences."""

    opened: Counter[str] = field(default_factory=Counter)
    healed: Counter[str] = field(default_factory=Counter)
    records_read: int = 0
    requests: int = 0
    longest_seconds: float = 0.0
    texts_from_diffs: int = 0

    @property
    def left(self) -> int:
        """Doubts that are open."""
        return self.opened.total() - self.healed.total()

    def rows(self) -> Iterator[tuple[str, str]]:
        """Names and values for a summary."""
        per_record = f"{self.requests / self.records_read:.2f}" if self.records_read else "none"
        yield "doubts opened", description(self.opened)
        yield "doubts healed", description(self.healed)
        yield "doubts left", f"{self.left:,}"
        yield "records read back", f"{self.records_read:,}"
        yield "API requests per record", per_record
        yield "longest time to heal", f"{self.longest_seconds:.0f} s"
        yield "texts rebuilt from diffs", f"{self.texts_from_diffs:,}"


def description(counted: Counter[str]) -> str:
    """`3 GAP_UPDATE, 1 wildcard`, most first."""
    return ", ".join(f"{count:,} {name}" for name, count in counted.most_common()) or "none"


def healing_figures(
    warehouse: Warehouse, instance: dg.DagsterInstance, entities: Iterable[str], since: float
) -> HealingFigures:
    """Figures of a warehouse's entities; requests are those of runs since a time (epoch seconds)."""
    figures = HealingFigures()
    for entity in entities:
        ledger = Ledger.open(warehouse, entity)
        for entry in ledger.table.scan().to_pylist() if ledger else ():
            figures.opened[entry["reason"]] += 1
            if entry["status"] == "healed":
                figures.healed[entry["reason"]] += 1
                took = (entry["healed_at"] - entry["opened_at"]).total_seconds()
                figures.longest_seconds = max(figures.longest_seconds, took)
        texts = Table.open(warehouse, text_fields.name_of(entity))
        figures.texts_from_diffs += texts.scan(["position"], "origin = 'diff'").num_rows if texts else 0
    for metadata in _metadata_of_runs(instance, since):
        figures.records_read += metadata.get("records_asked_for", 0)
        figures.requests += metadata.get("api_requests", 0)
    return figures


def _metadata_of_runs(instance: dg.DagsterInstance, since: float) -> Iterable[dict[str, Any]]:
    wanted = dg.AssetRecordsFilter(asset_key=GAP_RECONCILIATION_KEY, after_timestamp=since)
    cursor = None
    while True:
        page = instance.fetch_materializations(wanted, limit=_PAGE, cursor=cursor)
        for record in page.records:
            materialization = record.asset_materialization
            if materialization is not None:
                yield {name: value.value for name, value in materialization.metadata.items()}
        if not page.has_more:
            return
        cursor = page.cursor
