"""What the demo says at its end: what healing came to, and the streams beside change events compared with what the
org sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from sfcdc_assets.cli.demo_parts.demo_org import EVENT, GENERIC, SELECTED, TOPIC, OrgFacts
from sfcdc_assets.cli.syncing.verify_topics import compare_topics
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.event_channels.tables.filter_check import check_topic
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import text_fields
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.channel_kinds import folder_of

_PAGE = 500


@dataclass
class HealingFigures:
    """Entries opened and healed by reason; records read back one by one and the API requests that took; the longest
    time from an entry to its healing in seconds; large texts rebuilt from differences."""

    opened: Counter[str] = field(default_factory=Counter)
    healed: Counter[str] = field(default_factory=Counter)
    records_read: int = 0
    requests: int = 0
    longest_seconds: float = 0.0
    texts_from_diffs: int = 0

    @property
    def left(self) -> int:
        """Entries that are open."""
        return self.opened.total() - self.healed.total()

    def rows(self) -> Iterator[tuple[str, str]]:
        """Names and values for a summary."""
        per_record = f"{self.requests / self.records_read:.2f}" if self.records_read else "none"
        yield "suspects opened", description(self.opened)
        yield "suspects healed", description(self.healed)
        yield "suspects left", f"{self.left:,}"
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
    wanted = dg.AssetRecordsFilter(asset_key=ASSETS.keys.gap_reconciliation, after_timestamp=since)
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


def compared_streams(warehouse: Warehouse, facts: OrgFacts, channels: OpenChannels) -> Iterator[tuple[str, str, bool]]:
    """Yield what came of each channel, in words, and whether it is what the org sent. The topic's query is asked first,
    as the job `check_topics` does: what left its filter, or was there before it, no notification says."""
    (found,) = compare_topics([folder_of(TOPIC)], check_topic, channels)
    said = (
        f"{counted(_landed(warehouse, TOPIC), 'notification')}, {counted(found.in_table, 'record')} known by them, "
        f"{found.left:,} left its filter, {found.added:,} there before"
    )
    yield TOPIC, said, _known(warehouse) == facts.matching
    payloads = Counter(_values(warehouse, GENERIC, "payload"))
    yield GENERIC, counted(payloads.total(), "text"), payloads == facts.pushed
    numbers = Counter(_values(warehouse, EVENT, "Order_Number__c"))
    yield EVENT, counted(numbers.total(), "event"), numbers == facts.orders


def _known(warehouse: Warehouse) -> dict[object, tuple[object, ...]]:
    """Return what the topic's table says that its query finds."""
    state = PushTopicState.open(warehouse, folder_of(TOPIC))
    rows = state.table.rows(predicate="not _is_deleted and _left_filter_at is null") if state else []
    return {row["Id"]: tuple(row[name] for name in SELECTED) for row in rows}


def _landed(warehouse: Warehouse, channel: str) -> int:
    table = EventTable.open(warehouse, channel)
    return table.table.count() if table else 0


def _values(warehouse: Warehouse, channel: str, column: str) -> list[str]:
    table = EventTable.open(warehouse, channel)
    return [] if table is None else table.table.scan([column])[column].to_pylist()
