"""The drift audit: an entity's table against the org, record by record and field by field (guarantee 10).

The org goes on changing while it is read, so only what the table can know is compared: records that the stream names
after the position the table stands at changed while being compared, and those named just before the read may be shown
late by REST. They are left out at first, and so are suspect records, which the table itself does not vouch for. They
are compared again by `compare_again`; what is still left then is counted, and is not equal to anything.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

import polars as pl
import pyarrow as pa

from sfcdc_assets.apply.entity_tables import SnapshotMissing
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.tables.change_of_channel import OtherChannel
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.erasure_receipts import erased_records
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.daily_checks import readability_of
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_connection.whole_object import read_pages, start
from sfcdc_assets.org_reads.compare import EXTRA, MISSING, Difference, different_values, one_sided
from sfcdc_assets.reconciliation.audit_plan import AuditPlan, plan_of
from sfcdc_assets.reconciliation.behind_polls import read_and_not_applied, unseen_by_polls
from sfcdc_assets.reconciliation.broken_histories import broken_histories
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import PageCompared, notify
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.snapshot.soql import IdWindow, all_of
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

PAGES_AT_ONCE = 4
"""Pages of the org that are compared together. Of the table's files whole row groups are decoded, also those that reach
over the ends of what is compared: for a page alone that was most of a comparison's work."""


class Lands(Protocol):
    """Whoever lands what a channel brings, so that it is known which records changed."""

    def land(self, channel: str, *, entity: str) -> object:
        """Land all that has come; of polled objects, what the entity has."""


def verify_entity(
    run: OrgRunContext, lander: Lands, entity: str, channel: str, budget: int | None = None
) -> VerifyReport:
    """Read the entity from the org, whole or as far as `budget` API requests go, and compare.

    Memory holds `PAGES_AT_ONCE`, and the Ids of both sides. Of a hashed column the hashes are compared. Raises
    `SnapshotMissing` for an entity without a table, `OtherChannel` for one whose table stands at a position of another
    channel, and `PrivacyChanged`.
    """
    warehouse, org = run.warehouse, run.org
    started, calls, began_ms = time.monotonic(), org.session.calls, clock.now_ms()
    table = CurrentState.open(warehouse, entity)
    taken = Snapshots.open(warehouse, entity)
    if table is None or taken is None:
        raise SnapshotMissing(entity)
    if not taken.has_watermark_on(channel):
        raise OtherChannel(entity, channel)
    position = table.applied(channel) or 0
    columns = columns_of_table(Schemas(warehouse), entity, table.schema, run.privacy)
    plan = plan_of(table, columns, budget)
    report = VerifyReport(entity, channel, position, windows=len(plan.windows), skipped=len(plan.skipped))
    unreadable: dict[str, str] = {}
    parts = len(plan.windows) + len(plan.skipped)
    expected = sum(file.rows for file in table.files().values()) * len(plan.windows) // max(1, parts)
    seen = [_compare(run, table, columns, window, report, unreadable, expected) for window in plan.windows]
    lander.land(channel, entity=entity)
    moving = moving_since(run, table, entity, channel, began_ms)
    suspected = set(table.table.scan(["Id"], "_in_doubt")["Id"].to_pylist())
    if plan.skipped:
        # Of the parts that are not read nothing is compared, now or again.
        moving, suspected = (_within(plan, ids) for ids in (moving, suspected))
    report.differences = [each for each in report.differences if each.record_id not in moving | suspected]
    unseen = left_to_a_read_back(run.warehouse, report, report.differences)
    report.leave(moving, suspected | unseen, unreadable)
    report.differences = [each for each in report.differences if each.record_id not in report.left]
    read = pl.concat([pl.Series("Id", [], pl.String), *seen])
    report.compared = read.len() - int(read.is_in(list(report.left)).sum())
    report.broken_histories = broken_histories(warehouse, entity)
    report.calls, report.seconds = org.session.calls - calls, time.monotonic() - started
    return report


def moving_since(run: OrgRunContext, table: CurrentState, entity: str, channel: str, began_ms: int) -> set[str]:
    """Ids of the records that landed events name which this version of the table does not have yet, or which were
    received shortly before a comparison began (ms, UTC): REST may show the org as it was before them, while the table
    is past them. Of a polled object, those that were read and are not in the table."""
    if is_polled(channel):
        return read_and_not_applied(run.warehouse, entity, table)
    position, since_ms = table.applied(channel) or 0, began_ms - int(run.settings.visibility_seconds * 1000)
    raw_events = RawEvents.open(run.warehouse)
    recent = raw_events.first_position_received_after(channel, since_ms)
    after = position if recent is None else min(position, recent - 1)
    return {each for each in raw_events.record_ids_after(entity, channel, after) if is_salesforce_id(each)}


def _within(plan: AuditPlan, record_ids: set[str]) -> set[str]:
    """Return those that lie in the windows that are read."""
    return {each for each in record_ids if any(window.has(each) for window in plan.windows)}


def left_to_a_read_back(warehouse: Warehouse, report: VerifyReport, differences: Sequence[Difference]) -> set[str]:
    """Open an entry for each record of a polled object of which something differs that no poll can find, as the
    comparison does that is made of it once a day, and return their Ids."""
    if not (differences and is_polled(report.channel)):
        return set()
    how = readability_of(warehouse, report.entity, read_poll_notes(warehouse).get(report.entity))
    unseen = unseen_by_polls(how, differences)
    found = [each for each in differences if each.record_id in unseen]
    open_drift_suspects(warehouse, replace(report, differences=found), clock.now_ms())
    return unseen


@retry_on_conflict
def open_drift_suspects(warehouse: Warehouse, report: VerifyReport, now_ms: int) -> int:
    """Open an entry for each record that differs, so that the next run reads it back; returns how many are new."""
    if not report.differences:
        return 0
    description = {found.record_id: found.field or found.kind for found in reversed(report.differences)}
    suspects = [NewSuspect(record_id, Reason.DRIFT, report.position, what) for record_id, what in description.items()]
    ledger = Ledger.open_or_create(warehouse, report.entity)
    return len(ledger.note(suspects, report.channel, report.position, now_ms))


def _compare(
    run: OrgRunContext,
    table: CurrentState,
    columns: Sequence[Column],
    window: IdWindow,
    report: VerifyReport,
    unreadable: dict[str, str],
    expected: int,
) -> pl.Series:
    """Compare a part; returns the Ids of both sides, and notes records with a value that does not convert. `expected`:
    about how many rows all parts have. Records that were erased are not looked for."""
    session, erased = run.org.session, erased_records(run.warehouse)
    within = f" and {window.condition}" if window.condition else ""
    progress = start(
        session,
        report.entity,
        columns,
        channel=report.channel,
        position=report.position,
        snapshot_number=0,
        where=all_of(window.condition, run.org.condition_of(report.entity, report.channel)),
        expected_rows=expected,
    )
    compared = [column.name for column in columns if column.name in progress.fields and column.name != "Id"]
    seen: list[pl.Series] = []
    pages = read_pages(session, progress, columns, on_unreadable=unreadable.update)
    while some := list(islice(pages, PAGES_AT_ONCE)):
        rows = arrow_frame(pa.concat_tables([erased.without(page) for page, _ in some]))
        rows = rows.filter(~pl.col("_is_deleted").fill_null(value=False))
        if rows.is_empty():
            continue
        seen.append(rows["Id"])
        low, high = str(rows["Id"].min()), str(rows["Id"].max())
        of_pages = f"Id >= '{low}' and Id <= '{high}' and not _is_deleted"
        ours = table.table.frame(["Id", *compared], of_pages)
        report.in_org += rows.height
        notify(PageCompared(report.entity, report.in_org, expected))
        report.values_compared += rows.height * len(compared)
        report.add(different_values(report.entity, rows, ours, compared))
        report.add(one_sided(report.entity, rows.join(ours, on="Id", how="anti")["Id"].to_list(), MISSING))
    live = table.table.frame(["Id"], f"not _is_deleted{within}")
    report.in_table += live.height
    org_ids = pl.concat(seen) if seen else pl.Series("Id", [], pl.String)
    extra = live.join(org_ids.to_frame("Id"), on="Id", how="anti")["Id"].to_list()
    report.add(one_sided(report.entity, extra, EXTRA))
    return pl.concat([org_ids, live["Id"]]).unique()
