"""Healing, the reading half: records in doubt are read from the org and noted in `snapshot/<Entity>`.

What was read is durable before it is applied, so a process that dies in between has paid for nothing in vain, and every
table can be rebuilt without the org.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa

from sfcdc_assets import clock
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
from sfcdc_assets.reconciliation.compare import EXTRA
from sfcdc_assets.reconciliation.read_back import read_back
from sfcdc_assets.salesforce.describe import describe

SKEW = timedelta(seconds=2)
"""Commit timestamps of one transaction, and SystemModstamp, may differ by a second or two (facts section 7)."""
RECORDS = 10_000
"""The most records of one reading: what is held in memory, and what a failure costs. The next one takes the rest."""
READS = 3
"""How often a record whose row is older than its last event is read before it waits for the next attempt."""
SAYS_ALIVE = ("CREATE", "UPDATE", "UNDELETE", "GAP_CREATE", "GAP_UPDATE", "GAP_UNDELETE")
"""Events after which a record is there."""


@dataclass(frozen=True)
class ReadBackReport:
    """Records in doubt that were asked for, found, gone; those whose read was older than their last event; API requests
    spent; and why the reading failed, if it did."""

    entity: str
    asked: int
    found: int = 0
    gone: int = 0
    stale: int = 0
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
    clock_ms: Callable[[], int] = clock.now_ms,
    sleep: Callable[[float], None] = clock.sleep,
) -> ReadBackReport | None:
    """Read the entity's records in doubt back, those that may be asked for now; None when there are none.

    A read that the org refuses or breaks off leaves the doubts open, with the reason and the time in the ledger; the
    next attempt comes after a pause that doubles. Nothing is lost by it, and no other record is concerned.
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
        events = _events(RawEvents.open(warehouse), entity, channel, doubts)
        missed = {doubt.record_id for doubt in doubts if doubt.attempts or doubt.detail == EXTRA}
        fresh: list[pa.Table] = []
        wanted = record_ids
        for attempt in range(READS):
            if attempt:
                sleep(2.0**attempt)
            read_at = datetime.fromtimestamp(clock_ms() / 1000, UTC)
            rows = read_back(org.session, entity, wanted, columns, described, position, read_at)
            stale = _older_than_events(rows, events.filter(pl.col("position") <= position))
            stale |= _missing_against_events(rows, events) - missed
            fresh.append(rows.filter(pa.array([record_id not in stale for record_id in rows["Id"].to_pylist()])))
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
    left = [doubt for doubt in doubts if doubt.record_id in set(wanted)]
    ledger.failed(left, "the org's row was older than the record's last event, or not there yet", clock_ms())
    gone = rows["_system_modstamp"].null_count
    return ReadBackReport(
        entity,
        asked=len(record_ids),
        found=rows.num_rows - gone,
        gone=gone,
        stale=len(wanted),
        calls=org.session.calls - calls,
        oldest_opened_at=oldest,
    )


def _events(raw_events: RawEvents, entity: str, channel: str, doubts: Sequence[OpenDoubt]) -> pl.DataFrame:
    """`record_id`, `position`, `change_type`, `commit_timestamp` of each record's events since the first doubt."""
    first, landed = min(doubt.position_on(channel) for doubt in doubts), raw_events.place(channel).position
    wanted = ["record_ids", "position", "change_type", "commit_timestamp"]
    headers = raw_events.headers(entity, channel, wanted, after=first - 1, up_to=landed)
    return pl.DataFrame(headers).explode("record_ids").rename({"record_ids": "record_id"}).sort("position")


def _older_than_events(rows: pa.Table, events: pl.DataFrame) -> set[str]:
    """Ids of rows the org modified, as it says, before an event that the pin says they contain."""
    read = pl.DataFrame(rows.select(["Id", "_system_modstamp"]))
    last = events.group_by("record_id").agg(pl.col("commit_timestamp").max())
    older = read.join(last, left_on="Id", right_on="record_id").filter(
        pl.col("_system_modstamp") + SKEW < pl.col("commit_timestamp")
    )
    return set(older["Id"].to_list())


def _missing_against_events(rows: pa.Table, events: pl.DataFrame) -> set[str]:
    """Ids of records that the org does not show, though their last event says that they are there.

    The org may show a new record late, so the first look (an audit that missed it counts as one) does not take it for
    gone; a later one, after a pause that is much longer than any such delay, does.
    """
    missing = pl.DataFrame(rows.select(["Id", "_system_modstamp"])).filter(pl.col("_system_modstamp").is_null())
    last = events.unique("record_id", keep="last", maintain_order=True)
    alive = last.filter(pl.col("change_type").is_in(SAYS_ALIVE))
    return set(missing["Id"].to_list()) & set(alive["record_id"].to_list())
