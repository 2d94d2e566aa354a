"""`consistent_cuts`: one row a batch applied, tying a position of a channel to the version of every entity's tables.

A reader who opens each table at the version of one row sees the org as it was after one transaction, over all objects
(guarantee 5): see `open_cut`. Cuts are kept for as long as `SFCDC_CUT_RETENTION_DAYS` says, and the files that they
need as long (`maintenance`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "consistent_cuts"

CONSISTENT_CUTS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("commit_timestamp", pa.timestamp("us", "UTC")),
        ("tables", pa.map_(pa.string(), pa.int64())),
        ("applied_at", pa.timestamp("us", "UTC")),
    ]
)
"""`commit_timestamp`: when the last transaction in the cut was committed; null before the first event. `tables`: path
below the warehouse -> Delta version. `applied_at`: when the cut was reached, by our clock."""


@dataclass(frozen=True)
class Cut:
    """One row: every table's version at a position between two transactions of a channel.

    The time at which it was reached identifies no cut.
    """

    channel: str
    position: int
    commit_timestamp: datetime | None
    tables: Mapping[str, int]
    applied_at: datetime | None = field(default=None, compare=False)


def cuts(warehouse: Warehouse, channel: str | None = None) -> list[Cut]:
    """All cuts of one channel or of all; of a channel newest first: positions decide, and where a table was rebuilt
    the time. Reads them all, with every version of every table."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return []
    return _newest_first(table.scan(predicate=None if channel is None else _of(channel)))


def channels_with_cuts(warehouse: Warehouse) -> tuple[str, ...]:
    """In alphabetical order."""
    table = Table.open(warehouse, NAME)
    return tuple(sorted(table.scan(["channel"])["channel"].unique().to_pylist())) if table is not None else ()


def _newest_first(rows: pa.Table) -> list[Cut]:
    newest_first = rows.sort_by([("channel", "ascending"), ("position", "descending"), ("applied_at", "descending")])
    return [Cut(**{**row, "tables": dict(row["tables"])}) for row in newest_first.to_pylist()]


def latest_cut(warehouse: Warehouse, channel: str, at: datetime | None = None) -> Cut | None:
    """The newest cut of a channel, or the newest whose last transaction was committed at or before `at` (UTC).

    Where the newest one is tells the table's own transaction version; a search by time reads no cut but the one found.
    """
    table = Table.open(warehouse, NAME)
    position = table.transaction_version(channel) if table is not None else None
    if table is None or position is None:
        return None
    early_enough = _of(channel)
    if at is not None:
        early_enough += f" and commit_timestamp <= timestamp '{at.astimezone(UTC).isoformat()}'"
        position = pc.max(table.scan(["position"], early_enough)["position"]).as_py()
        if position is None:
            return None
    newest = _newest_first(table.scan(predicate=f"{early_enough} and position = {position}"))
    return newest[0] if newest else None


def prune_cuts(warehouse: Warehouse, before: datetime) -> int:
    """Forget cuts that were reached before a time, but for the newest of each channel; returns how many there were.

    Of a channel those go that come before all that are kept. Raises `ConcurrentCommit`.
    """
    table = Table.open(warehouse, NAME)
    if table is None:
        return 0
    rows = pl.DataFrame(table.scan(["channel", "position", "applied_at"]))
    is_kept = (pl.col("applied_at") >= before) | (pl.col("position") == pl.col("position").max().over("channel"))
    first_kept = dict(rows.filter(is_kept).group_by("channel").agg(pl.col("position").min()).iter_rows())
    old = [f"({_of(channel)} and position < {first})" for channel, first in sorted(first_kept.items())]
    if not any(position < first_kept[channel] for channel, position, _ in rows.iter_rows()):
        return 0
    return table.delete_rows(" or ".join(old), {})


def newest_cuts(warehouse: Warehouse) -> list[Cut]:
    """The newest cut of each channel, however old it is."""
    found = (latest_cut(warehouse, channel) for channel in channels_with_cuts(warehouse))
    return [cut for cut in found if cut is not None]


def _of(channel: str) -> str:
    quoted = channel.replace("'", "''")
    return f"channel = '{quoted}'"


def was_made_after(cut: Cut, table: Table | None) -> bool:
    """Whether a table of a cut was rebuilt since (rebuilt): the cut's version of it is another one then, or gone."""
    if table is None or cut.applied_at is None:
        return True
    # Both by our clock; the table knows milliseconds.
    return table.created_ms > cut.applied_at.timestamp() * 1000


@retry_on_conflict
def add_cut(warehouse: Warehouse, cut: Cut, applied_at: datetime) -> bool:
    """Append a cut unless it is the newest one already. Raises `ConcurrentCommit`."""
    newest = latest_cut(warehouse, cut.channel)
    if newest == cut and not any(was_made_after(newest, Table.open(warehouse, path)) for path in newest.tables):
        return False
    table = Table.open_or_create(warehouse, NAME, CONSISTENT_CUTS)
    row = {**vars(cut), "tables": list(cut.tables.items()), "applied_at": applied_at}
    table.append(pa.Table.from_pylist([row], schema=CONSISTENT_CUTS), {cut.channel: cut.position}, {})
    return True
