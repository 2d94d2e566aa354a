"""The drift audit: an entity's table against the org, record by record and field by field (guarantee 10).

The org goes on changing while it is read, so only what the table can know is compared: records that the stream names
after the position the table stands at changed while being compared, and those named just before the read may be shown
late by REST. They are left out at first, and so are suspect records, which the table itself does not vouch for. They
are compared again by `compare_again`; what is still left then is counted, and is not equal to anything.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import polars as pl

from sfcdc_assets.apply.entity_tables import SnapshotMissing
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.tables.change_of_channel import OtherChannel
from sfcdc_assets.lake.tables.current_state import CurrentState, id_ranges
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
from sfcdc_assets.reconciliation.behind_polls import read_and_not_applied, unseen_by_polls
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import PageCompared, notify
from sfcdc_assets.salesforce.bulk_query import CALLS_PER_JOB
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.snapshot.pages import rows_per_page
from sfcdc_assets.snapshot.soql import IdWindow, all_of
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets.timeline.version_columns import IN_ORDER

ROWS_AT_ONCE = 250_000
"""Rows of `current_state` whose versions are compared at once."""


def broken_histories(warehouse: Warehouse, entity: str) -> list[str]:
    """Ids of the records whose versions do not, in order; memory holds the versions of some key-range files."""
    table = CurrentState.open(warehouse, entity)
    found: list[str] = []
    for window in table.id_windows(ROWS_AT_ONCE) if table is not None else ():
        versions = all_versions(warehouse, entity, window.condition or None, IN_ORDER)
        if versions is not None:
            found += broken(arrow_frame(versions))
    return sorted(found)


def broken(versions: pl.DataFrame) -> list[str]:
    """Ids of the records of whose versions one does not end where the next begins, by time and by position, or whose
    last version is not the row's."""
    ordered = versions.sort(IN_ORDER, nulls_last=True)
    next_position = pl.col("_position").shift(-1).over("Id")
    next_from = pl.col("_valid_from").shift(-1).over("Id")
    follows = pl.col("_superseded_at").eq_missing(next_position) & pl.col("_valid_to").eq_missing(next_from)
    return ordered.filter(~follows)["Id"].unique().sort().to_list()


DIFFERENCES_KEPT = 100_000
"""Differences held in memory while reading; beyond it the report says that there were more."""
DAY_SECONDS = 86_400


@dataclass
class VerifyReport:
    """What was compared: records in all, and those of them compared again; live records of the org and of the table;
    records that could not be compared (they changed each time, are suspect, or the org does not give them);
    differences, the parts read and the parts that were not for want of budget, and the API requests spent."""

    entity: str
    channel: str
    position: int
    in_org: int = 0
    in_table: int = 0
    compared: int = 0
    compared_again: int = 0
    changed_meanwhile: int = 0
    suspects: int = 0
    unreadable: int = 0
    values_compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    cut_off: bool = False
    """True when there were more differences than are listed."""
    windows: int = 0
    skipped: int = 0
    calls: int = 0
    seconds: float = 0.0
    refused: str | None = None
    """Why nothing was compared."""
    left: frozenset[str] = frozenset()
    """Ids of the records that were not compared."""
    broken_histories: list[str] = field(default_factory=list)
    """Ids of the records whose versions leave a hole or overlap."""

    @property
    def is_equal(self) -> bool:
        """Whether every record of the entity was compared, and none differs."""
        return not (self.differs or self.refused or self.left or self.skipped)

    @property
    def differs(self) -> bool:
        """Whether the tables are not what they should be."""
        return bool(self.differences or self.cut_off or self.broken_histories)

    def to_json(self) -> dict[str, Any]:
        """JSON-able values, without the ids of what is left."""
        description = {name: value for name, value in vars(self).items() if name not in ("left", "differences")}
        return {**description, "equal": self.is_equal, "differences": [asdict(each) for each in self.differences]}

    def leave(self, moving: set[str], suspected: set[str], unreadable: Collection[str] = ()) -> None:
        """Count as left what changed while being compared, is suspect, or could not be read from the org."""
        self.unreadable = len(set(unreadable) - suspected)
        self.changed_meanwhile, self.suspects = len(moving - suspected - set(unreadable)), len(suspected)
        self.left = frozenset({*moving, *suspected, *unreadable})

    def add(self, found: list[Difference]) -> None:
        """Hold differences, up to `DIFFERENCES_KEPT`."""
        self.cut_off = self.cut_off or len(self.differences) + len(found) > DIFFERENCES_KEPT
        self.differences.extend(found[: DIFFERENCES_KEPT - len(self.differences)])


class Lands(Protocol):
    """Whoever lands what a channel brings, so that it is known which records changed."""

    def land(self, channel: str, *, entity: str) -> object:
        """Land all that has come; of polled objects, what the entity has."""


def verify_entity(
    run: OrgRunContext, lander: Lands, entity: str, channel: str, budget: int | None = None
) -> VerifyReport:
    """Read the entity from the org, whole or as far as `budget` API requests go, and compare.

    Memory holds one page, and the Ids of both sides. Of a hashed column the hashes are compared. Raises
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
    plan = _plan(table, columns, budget)
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


def _plan(table: CurrentState, columns: Sequence[Column], budget: int | None) -> AuditPlan:
    files = list(table.files().values())
    ranges = sorted((part.first, file.rows) for part, file in zip(id_ranges(files), files, strict=True)) or [("", 0)]
    boundaries, rows = [first for first, _ in ranges], [count for _, count in ranges]
    per_page = rows_per_page(columns)
    return plan_windows(boundaries, rows, per_page, budget, turn=int(time.time() // DAY_SECONDS))


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
    seen: list[pl.Series] = []
    for page, after in read_pages(session, progress, columns, on_unreadable=unreadable.update):
        rows = arrow_frame(erased.without(page)).filter(~pl.col("_is_deleted").fill_null(value=False))
        if rows.is_empty():
            continue
        seen.append(rows["Id"])
        low, high = str(rows["Id"].min()), str(rows["Id"].max())
        ours = arrow_frame(table.table.scan(predicate=f"Id >= '{low}' and Id <= '{high}' and not _is_deleted"))
        compared = [column.name for column in columns if column.name in after.fields and column.name != "Id"]
        report.in_org += rows.height
        notify(PageCompared(report.entity, report.in_org, expected))
        report.values_compared += rows.height * len(compared)
        report.add(different_values(report.entity, rows, ours, compared))
        report.add(one_sided(report.entity, rows.join(ours, on="Id", how="anti")["Id"].to_list(), MISSING))
    live = arrow_frame(table.table.scan(["Id"], f"not _is_deleted{within}"))
    report.in_table += live.height
    org_ids = pl.concat(seen) if seen else pl.Series("Id", [], pl.String)
    extra = live.join(org_ids.to_frame("Id"), on="Id", how="anti")["Id"].to_list()
    report.add(one_sided(report.entity, extra, EXTRA))
    return pl.concat([org_ids, live["Id"]]).unique()


@dataclass(frozen=True)
class AuditPlan:
    """The windows to read, those left out for want of budget, and what the reading should cost in requests."""

    windows: tuple[IdWindow, ...]
    skipped: tuple[IdWindow, ...]
    calls: int


def plan_windows(
    boundaries: Sequence[str], rows: Sequence[int], rows_per_page: int, budget: int | None, turn: int
) -> AuditPlan:
    """All of the entity in one reading when the budget allows it, else as many windows as it does.

    `boundaries[n]` is the first Id of the nth part of the table, which has `rows[n]` rows. Which windows come first
    goes round with `turn` (a day number), so that successive audits cover everything.
    """
    whole = CALLS_PER_JOB + -(-max(1, sum(rows)) // rows_per_page)
    if budget is None or whole <= budget:
        return AuditPlan((IdWindow(),), (), whole)
    lowers: list[str | None] = [None, *boundaries[1:]]
    uppers: list[str | None] = [*boundaries[1:], None]
    windows = [IdWindow(lower, upper) for lower, upper in zip(lowers, uppers, strict=True)]
    chosen: list[IdWindow] = []
    left = budget
    for step in range(len(windows)):
        number = (turn + step) % len(windows)
        cost = CALLS_PER_JOB + -(-max(1, rows[number]) // rows_per_page)
        if cost > left:
            break
        left -= cost
        chosen.append(windows[number])
    return AuditPlan(tuple(chosen), tuple(window for window in windows if window not in chosen), budget - left)
