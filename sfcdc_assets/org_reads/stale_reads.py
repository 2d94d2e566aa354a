"""Reads of the org that show an older state than the events before their watermark (guarantee 8).

REST may lag behind the stream by more than SFCDC_VISIBILITY_SECONDS allows for. What a read shows is compared with the
headers of the events that it is to contain: a row that the org modified, as it says, before its record's last event or
at a time that an earlier transaction of the record may have left as well, or a record that it does not show though its
last event says that it is there, is not believed at first. Of two transactions in one second the values decide
(`shown_events`). Long after the event, by our own clock, a read is believed: some changes leave SystemModstamp behind
their commit time, and records may vanish without an event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads.shown_events import not_shown, undecided
from sfcdc_assets.org_reads.vanished import TELL_OF_DELETES
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.timeline.changes import names_one_record
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.untrusted_rows import UntrustedRecord

SKEW = timedelta(seconds=2)
"""Commit timestamps of one transaction, and SystemModstamp, may differ by a second or two."""
USUAL_LAGS = 60
"""So many times SFCDC_VISIBILITY_SECONDS (five minutes by default) after an event a read surely shows it."""

_EVENT = ["record_ids", "position", "change_type", "commit_timestamp", "received_at", "transaction_key"]

TELL_OF_CREATES = ("CREATE", "GAP_CREATE")


def events_of_records(raw_events: RawEvents, entity: str, channel: str, after: int, up_to: int) -> pl.DataFrame:
    """`record_id`, `position`, `change_type`, `commit_timestamp`, `received_at`, `transaction_key` of each record's
    events with after < position <= up_to, in order."""
    headers = raw_events.headers(entity, channel, _EVENT, after=after, up_to=up_to)
    return pl.DataFrame(headers).explode("record_ids").rename({"record_ids": "record_id"}).sort("position")


def longest_lag_ms(visibility_seconds: float) -> int:
    """Return how long after an event a read that contradicts it is not believed."""
    return int(visibility_seconds * USUAL_LAGS * 1000)


def older_than_events(rows: pl.DataFrame, events: pl.DataFrame) -> set[str]:
    """Ids of rows (`Id`, `_system_modstamp`) that may show their record as it was before the last of its events, all of
    which they should contain: the org modified them, as it says, before that event, or at a time that an earlier
    transaction of the record explains as well.

    SystemModstamp is in seconds: of two transactions in one second it cannot decide (see `shown_events`).
    """
    by_commit = events.group_by("record_id", "transaction_key").agg(
        pl.col("commit_timestamp").max(), pl.col("position").max()
    )
    last = by_commit.sort("position").group_by("record_id", maintain_order=True).last()
    last = last.select("record_id", last="commit_timestamp", of_last="transaction_key")
    each = rows.join(by_commit, left_on="Id", right_on="record_id").join(last, left_on="Id", right_on="record_id")
    modified, second = pl.col("_system_modstamp"), pl.col("commit_timestamp").dt.truncate("1s")
    behind = (modified - pl.col("last").dt.truncate("1s")).abs()
    explains = (pl.col("transaction_key") != pl.col("of_last")) & ((modified - second).abs() <= behind)
    is_older = (modified + SKEW < pl.col("last")) | (explains & (behind > timedelta(0)))
    return set(each.filter(is_older)["Id"].to_list())


def said_alive(events: pl.DataFrame) -> set[str]:
    """Ids of the records that may be there, by their last event; it may be of a kind that is not known."""
    last = events.unique("record_id", keep="last", maintain_order=True)
    return set(last.filter(~pl.col("change_type").is_in(TELL_OF_DELETES))["record_id"].to_list())


def created(events: pl.DataFrame) -> set[str]:
    """Ids of the records that one of the events created."""
    return set(events.filter(pl.col("change_type").is_in(TELL_OF_CREATES))["record_id"].to_list())


def settled(record_ids: Collection[str], events: pl.DataFrame, since_ms: int) -> set[str]:
    """Return those of the records whose last event was received by then."""
    since = utc(since_ms)
    recent = events.filter(pl.col("received_at") > since)["record_id"].to_list()
    return set(record_ids).difference(recent)


def stale_records(
    warehouse: Warehouse,
    snapshots: Snapshots,
    progress: SnapshotProgress,
    last_page: pa.Table,
    columns: Sequence[Column],
    lag_ms: int,
    of_another_org: int,
) -> list[UntrustedRecord]:
    """Return records of which recent events say other than a snapshot of which all pages but the last one are in the
    table. `columns` are the entity's.

    Recent are those received in the `lag_ms` before the snapshot began. Only those up to its watermark count: later
    ones are applied on top of it. Events up to the position `of_another_org` say nothing of what this one shows.
    """
    raw_events = RawEvents.open(warehouse)
    first = raw_events.first_position_received_after(progress.channel, progress.started_at_ms - lag_ms)
    after = max(of_another_org, first - 1) if first is not None else progress.position
    if after >= progress.position:
        return []
    try:
        events = events_of_records(raw_events, progress.entity, progress.channel, after, progress.position)
    except TableDamaged:
        return []  # what cannot be read cannot be compared; this snapshot is what mends it
    named = {record_id for record_id in events["record_id"].to_list() if names_one_record(record_id)}
    if not named:
        return []
    before = snapshots.modified(progress.snapshot_number, named)
    rows = pl.DataFrame(pa.concat_tables([before, last_page.select(before.column_names)]))
    older = older_than_events(rows, events)
    in_question = undecided(rows, events)
    if in_question.height:
        read = {column.name for column in columns} & set(last_page.column_names)
        names = [*sorted(read), "_is_deleted"]
        earlier = snapshots.rows(progress.snapshot_number, set(in_question["record_id"]), names)
        whole = pa.concat_tables([earlier, last_page.select(names)])
        older |= not_shown(warehouse, progress.entity, progress.channel, columns, whole, in_question)
    # What was created lately is in the recycle bin if it is not alive.
    missing = ((said_alive(events) | created(events)) & named) - set(rows["Id"].to_list())
    late = dict.fromkeys(missing, "it is not there yet") | dict.fromkeys(
        older, "its row is, or may be, older than its last event"
    )
    return _untrusted(progress, Reason.STALE_SNAPSHOT, late)


def unreadable_records(progress: SnapshotProgress, problems: Mapping[str, str]) -> list[UntrustedRecord]:
    """Return records of a page whose rows could not be read, each with its problem."""
    return _untrusted(progress, Reason.UNREADABLE_ROW, problems)


def _untrusted(progress: SnapshotProgress, reason: Reason, problems: Mapping[str, str]) -> list[UntrustedRecord]:
    description = f"snapshot {progress.snapshot_number}: "
    return [
        UntrustedRecord(record_id, reason, description + problem) for record_id, problem in sorted(problems.items())
    ]
