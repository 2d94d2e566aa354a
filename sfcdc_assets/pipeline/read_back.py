"""Healing, the reading half: records in doubt are read from the org and noted in `snapshot/<Entity>`.

What was read is durable before it is applied, so a process that dies in between has paid for nothing in vain, and every
table can be rebuilt without the org.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa

from sfcdc_assets import clock
from sfcdc_assets.config import VISIBILITY_SECONDS
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.decide_anew import decide_anew
from sfcdc_assets.lake.gap_reconciliation import Ledger, OpenDoubt, due
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.columns import columns_of_table
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.pin import Pins
from sfcdc_assets.pipeline.stale_reads import events_of_records, longest_lag_ms, older_than_events, said_alive, settled
from sfcdc_assets.reconciliation.compare import EXTRA
from sfcdc_assets.reconciliation.read_back import read_back
from sfcdc_assets.salesforce.describe import describe

RECORDS = 10_000
"""The most records of one reading: what is held in memory, and what a failure costs. The next one takes the rest."""
READS = 3
"""How often a record whose row is older than its last event is read before it waits for the next attempt."""


@dataclass(frozen=True)
class ReadBackReport:
    """Records in doubt that were asked for, found, gone; those whose read was older than their last event, and those
    that could not be read though others were; API requests spent; and why the reading failed, if it did."""

    entity: str
    asked: int
    found: int = 0
    gone: int = 0
    stale: int = 0
    refused: int = 0
    calls: int = 0
    oldest_opened_at: int | None = None
    error: str | None = None


@decide_anew
def read_back_doubts(
    warehouse: Warehouse,
    org: Org,
    entity: str,
    channel: str,
    pins: Pins,
    *,
    lag_ms: int = longest_lag_ms(VISIBILITY_SECONDS),
    clock_ms: Callable[[], int] = clock.now_ms,
    sleep: Callable[[float], None] = clock.sleep,
) -> ReadBackReport | None:
    """Read the entity's records in doubt back, those that may be asked for now; None when there are none.

    A read that the org refuses or breaks off leaves the doubts open, with the reason and the time in the ledger; the
    next attempt comes after a pause that doubles. Nothing is lost by it, and no other record is concerned: one that the
    org does not give, or that does not convert, waits with a reason and a pause of its own.
    """
    ledger = Ledger.open(warehouse, entity)
    table = CurrentState.open(warehouse, entity)
    taken = Snapshots.open(warehouse, entity)
    doubts = due(ledger.open_doubts(), clock_ms()) if ledger else []
    if not doubts or ledger is None or table is None or taken is None:
        return None
    calls = org.session.calls
    record_ids = list(dict.fromkeys(doubt.record_id for doubt in doubts))[:RECORDS]
    chosen = set(record_ids)
    doubts = [doubt for doubt in doubts if doubt.record_id in chosen]
    oldest = min(doubt.opened_at for doubt in doubts)
    columns = columns_of_table(Schemas(warehouse), entity, table.schema, org.privacy)
    try:
        # A read older than events that are in the row already would be left out: the pin lies after all of them.
        position = pins.of(channel, max(table.applied(channel) or 0, *(doubt.position_on(channel) for doubt in doubts)))
        described = describe(org.session, entity).field_names
        events = _events(RawEvents.open(warehouse), entity, channel, doubts, clock_ms() - lag_ms)
        repeated = {doubt.record_id for doubt in doubts if doubt.attempts or doubt.detail == EXTRA}
        fresh: list[pa.Table] = []
        failed: dict[str, str] = {}
        wanted = record_ids
        for attempt in range(READS):
            if attempt:
                sleep(2.0**attempt)
            read_at = datetime.fromtimestamp(clock_ms() / 1000, UTC)
            read = read_back(org.session, entity, wanted, columns, described, position, read_at)
            rows = read.rows
            failed |= read.refused
            stale = _stale(rows, events, position, repeated, clock_ms() - lag_ms)
            repeated |= stale
            kept = [record_id not in stale for record_id in rows["Id"].to_pylist()]
            fresh.append(rows.filter(pa.array(kept, pa.bool_())))
            wanted = sorted(stale)
            if not wanted:
                break
    except SfcdcError as error:
        ledger.failed(doubts, str(error), clock_ms())
        spent = org.session.calls - calls
        return ReadBackReport(entity, len(record_ids), calls=spent, oldest_opened_at=oldest, error=str(error))
    rows = pa.concat_tables(fresh)
    if rows.num_rows:
        taken.add_refetch(rows, clock_ms())
    refused = len(failed)
    failed |= dict.fromkeys(wanted, "the org's row was older than the record's last event, or not there yet")
    ledger.failed([doubt for doubt in doubts if doubt.record_id in failed], failed, clock_ms())
    gone = rows["_system_modstamp"].null_count
    return ReadBackReport(
        entity,
        asked=len(record_ids),
        found=rows.num_rows - gone,
        gone=gone,
        stale=len(wanted),
        refused=refused,
        calls=org.session.calls - calls,
        oldest_opened_at=oldest,
    )


def _events(
    raw_events: RawEvents, entity: str, channel: str, doubts: Sequence[OpenDoubt], since_ms: int
) -> pl.DataFrame:
    """The entity's events since the first doubt, and those before it that were received after a time."""
    first = min(doubt.position_on(channel) for doubt in doubts)
    recent = raw_events.first_position_received_after(channel, since_ms)
    after = min([first, *([recent] if recent is not None else [])]) - 1
    return events_of_records(raw_events, entity, channel, after, raw_events.place(channel).position)


def _stale(rows: pa.Table, events: pl.DataFrame, position: int, repeated: Collection[str], since_ms: int) -> set[str]:
    """Ids of rows, pinned at `position`, that show an older state than the events, or no record where there should be
    one. A `repeated` read of a record whose last event was received by `since_ms` is the truth, whatever the row's
    SystemModstamp."""
    read = pl.DataFrame(rows.select(["Id", "_system_modstamp"]))
    missing = set(read.filter(pl.col("_system_modstamp").is_null())["Id"].to_list())
    contained = events.filter(pl.col("position") <= position)
    older = older_than_events(read, contained) - settled(repeated, contained, since_ms)
    return older | (missing & said_alive(events)) - settled(repeated, events, since_ms)
