"""Records that changed while an audit compared them, or were in doubt, are compared again: by their ids, once the table
has caught up with them.

A record that was compared once is done, so each round has only those that changed again meanwhile.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import polars as pl

from sfcdc_assets import clock
from sfcdc_assets.lake.current_state import IDS_PER_SCAN, CurrentState
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.audits.verify import Lands, VerifyReport, moving_since
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.schemas.table_columns import columns_of_table
from sfcdc_assets.reconciliation.compare import EXTRA, MISSING, different_values, one_sided
from sfcdc_assets.reconciliation.records_by_id import read_back
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.state.frames import arrow_frame

IDS_PER_READ = 2_000
"""What one retrieve of the org takes."""


def compare_again(
    warehouse: Warehouse,
    org: OrgConnection,
    lander: Lands,
    report: VerifyReport,
    *,
    visibility_seconds: float,
) -> None:
    """One round over what the report has left; what can be compared now moves from `left` to `compared`.

    Raises the session's errors.
    """
    started, calls, began_ms = time.monotonic(), org.session.calls, clock.now_ms()
    entity, channel, asked = report.entity, report.channel, sorted(report.left)
    table = CurrentState.open(warehouse, entity)
    if table is None or not asked:
        return
    position = table.applied(channel) or 0
    columns = columns_of_table(Schemas(warehouse), entity, table.schema, org.privacy)
    described = describe(org.session, entity).field_names
    compared = [column.name for column in columns if column.name in described and column.name != "Id"]
    found, doubted, unreadable = [], set(), set()
    for start in range(0, len(asked), IDS_PER_READ):
        some = asked[start : start + IDS_PER_READ]
        read_at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        read = read_back(org.session, entity, some, columns, described, position, read_at)
        unreadable |= {*read.refused, *read.left}
        theirs = arrow_frame(read.rows).filter(~pl.col("_is_deleted"))
        ours = _rows_of(table, some)
        doubted |= set(ours.filter(pl.col("_in_doubt"))["Id"].to_list())
        ours = ours.filter(~pl.col("_is_deleted"))
        found += different_values(entity, theirs, ours, compared)
        found += one_sided(entity, theirs.join(ours, on="Id", how="anti")["Id"].to_list(), MISSING)
        found += one_sided(entity, ours.join(theirs, on="Id", how="anti")["Id"].to_list(), EXTRA)
    lander.land(channel)
    moving = moving_since(warehouse, entity, channel, position, began_ms - int(visibility_seconds * 1000))
    report.position = position
    report.leave(moving & set(asked), doubted, unreadable)
    done = len(asked) - len(report.left)
    report.compared += done
    report.compared_again += done
    report.values_compared += done * len(compared)
    report.add([each for each in found if each.record_id not in report.left])
    report.calls += org.session.calls - calls
    report.seconds += time.monotonic() - started


def _rows_of(table: CurrentState, record_ids: list[str]) -> pl.DataFrame:
    parts = []
    for start in range(0, len(record_ids), IDS_PER_SCAN):
        listed = ", ".join(f"'{each}'" for each in record_ids[start : start + IDS_PER_SCAN])
        parts.append(arrow_frame(table.table.scan(predicate=f"Id in ({listed})")))
    return pl.concat(parts)
