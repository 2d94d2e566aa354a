"""`consistent_cuts`: one row a batch applied, tying a position of a channel to the version of every entity's tables.

A reader who opens each table at the version of one row sees the org as it was after one transaction, over all objects
(guarantee 5): see `open_cut`. An entity that has not come to that position does not keep the others from it: it is in
the cut as of its own last batch, and the row says that it lags, since when and why. Which cuts are kept says
`cut_retention`; the files and the log entries that they need are kept as long (`maintenance`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal, literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.cut_retention import COLUMNS, CutRetention
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms, utc

NAME = "consistent_cuts"

PRUNED = "#pruned"
"""Transaction whose version is the time (epoch ms) at which cuts were forgotten."""
GAPS_AT_ONCE = 100
"""Conditions on times in one predicate: the engine's parser goes one level deeper for each."""

CONSISTENT_CUTS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("commit_timestamp", pa.timestamp("us", "UTC")),
        ("tables", pa.map_(pa.string(), pa.int64())),
        ("applied_at", pa.timestamp("us", "UTC")),
        (
            "lagging",
            pa.list_(
                pa.struct(
                    [
                        ("entity", pa.string()),
                        ("position", pa.int64()),
                        ("as_of", pa.timestamp("us", "UTC")),
                        ("since", pa.timestamp("us", "UTC")),
                        ("reason", pa.string()),
                    ]
                )
            ),
        ),
        ("as_of", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
    ]
)
"""`commit_timestamp`: when the last transaction in the cut was committed; null before the first event. `tables`: path
below the warehouse -> Delta version. `applied_at`: when the cut was reached, by our clock. `lagging`: as `Lagging`.
`as_of`: as in `Cut`."""


NOT_FED = "nothing feeds it by the settings of who noted the cut"
"""Why an entity lags that the settings leave out."""


@dataclass(frozen=True)
class Lagging:
    """An entity of the channel that does not stand at the cut's position.

    `position`: where its tables stand, between two transactions; None where it has none, or none of this channel.
    `as_of`: when the last transaction up to there was committed. `since`: the first cut in which it lagged, by our
    clock. `reason`: in words.
    """

    entity: str
    position: int | None
    as_of: datetime | None
    since: datetime
    reason: str

    def __str__(self) -> str:
        shown = "without tables yet" if self.position is None else "as it was read"
        if self.as_of:
            shown = f"as of {self.as_of:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.entity} lags since {self.since:%Y-%m-%d %H:%M:%S} UTC ({self.reason}): {shown}"


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
    lagging: tuple[Lagging, ...] = ()
    """In the order of their names."""
    as_of: Mapping[str, datetime] = field(default_factory=dict, compare=False)
    """Polled entity -> up to when its tables have all changes of the org, by the org's clock: each has been asked at a
    time of its own. None of them is later than `commit_timestamp`. Empty for a channel of events, whose order all
    entities share."""

    @property
    def in_trouble(self) -> tuple[Lagging, ...]:
        """Those that lag, but for those that the settings leave out: that is meant."""
        return tuple(each for each in self.lagging if each.reason != NOT_FED)

    def time_of(self, entity: str) -> datetime | None:
        """Return as of when the entity's tables are in it."""
        lag = self.lag_of(entity)
        if lag is not None:
            return lag.as_of
        return self.as_of.get(entity) if self.as_of else self.commit_timestamp

    def shows_the_same(self, other: Cut) -> bool:
        """Return whether the other one has the same tables; polls that found nothing make no other cut."""
        return self == (replace(other, commit_timestamp=self.commit_timestamp) if other.as_of else other)

    def lag_of(self, entity: str) -> Lagging | None:
        """None where the entity stands at the cut, or the cut knows nothing of it."""
        return next((each for each in self.lagging if each.entity == entity), None)

    def tables_of(self, entity: str) -> dict[str, int]:
        """Return those of `tables` that are the entity's."""
        return {path: version for path, version in self.tables.items() if path.partition("/")[2] == entity}


def cuts(warehouse: Warehouse, channel: str | None = None) -> list[Cut]:
    """All cuts of one channel or of all; of a channel newest first: positions decide, and where a table was rebuilt
    the time. Reads them all, with every version of every table."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return []
    return _newest_first(table.scan(predicate=None if channel is None else _of(channel)))


def channels_with_cuts(warehouse: Warehouse) -> tuple[str, ...]:
    """Return the channels that have cuts, in alphabetical order."""
    table = Table.open(warehouse, NAME)
    return tuple(sorted(table.scan(["channel"])["channel"].unique().to_pylist())) if table is not None else ()


def _newest_first(rows: pa.Table) -> list[Cut]:
    newest_first = rows.sort_by([("channel", "ascending"), ("position", "descending"), ("applied_at", "descending")])
    # By Polars: Arrow imports pandas to make a time.
    return [
        Cut(
            **{
                **row,
                "tables": dict(row["tables"]),
                "lagging": tuple(Lagging(**each) for each in row["lagging"] or ()),
                "as_of": dict(row.get("as_of") or ()),
            }
        )
        for row in pl.DataFrame(newest_first).to_dicts()
    ]


def latest_cut(warehouse: Warehouse, channel: str, at: datetime | None = None) -> Cut | None:
    """Return the newest cut of a channel, or the newest whose last transaction was committed at or before `at` (UTC).

    Where the newest one is tells the table's own transaction version; a search by time reads no cut but the one found.
    """
    table = Table.open(warehouse, NAME)
    position = table.transaction_version(channel) if table is not None else None
    if table is None or position is None:
        return None
    early_enough = _of(channel)
    if at is not None:
        early_enough += f" and commit_timestamp <= {literal_time(at)}"
        position = pc.max(table.scan(["position"], early_enough)["position"]).as_py()
        if position is None:
            return None
    newest = _newest_first(table.scan(predicate=f"{early_enough} and position = {position}"))
    return newest[0] if newest else None


def prune_cuts(warehouse: Warehouse, retention: CutRetention, now: datetime) -> int:
    """Forget the cuts that are not kept any more; returns how many there were. Raises `ConcurrentCommit`."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return 0
    rows = table.frame(list(COLUMNS))
    rows = rows.with_columns(retention.kept(rows, now))
    forgotten = 0
    for channel in rows["channel"].unique():
        gaps = _gaps(rows.filter(pl.col("channel") == channel))
        for start in range(0, len(gaps), GAPS_AT_ONCE):
            times = (
                f"applied_at between {literal_time(first)} and {literal_time(last)}"
                for first, last in gaps[start:][:GAPS_AT_ONCE]
            )
            forgotten += table.delete_rows(f"{_of(channel)} and ({' or '.join(times)})", {PRUNED: epoch_ms(now)})
    return forgotten


def drop_cuts(warehouse: Warehouse, dropped: Sequence[Cut]) -> int:
    """Forget these cuts; returns how many there were. Raises `ConcurrentCommit`."""
    table = Table.open(warehouse, NAME)
    forgotten = 0
    for start in range(0, len(dropped) if table is not None else 0, GAPS_AT_ONCE):
        each = dropped[start : start + GAPS_AT_ONCE]
        alike = (f"({_of(c.channel)} and position = {c.position} and {_is_reached_at(c)})" for c in each)
        assert table is not None
        forgotten += table.delete_rows(" or ".join(alike), {})
    return forgotten


def _is_reached_at(cut: Cut) -> str:
    return "applied_at is null" if cut.applied_at is None else f"applied_at = {literal_time(cut.applied_at)}"


def pruned_at(warehouse: Warehouse) -> datetime | None:
    """Return when cuts were forgotten for the last time."""
    table = Table.open(warehouse, NAME)
    found = table.transaction_version(PRUNED) if table is not None else None
    return utc(found) if found is not None else None


def _gaps(of_channel: pl.DataFrame) -> list[tuple[datetime, datetime]]:
    """Return the times within which no cut of a channel is kept, from the first that is not to the last."""
    times = of_channel.group_by("applied_at").agg(pl.col("is_kept").any()).sort("applied_at")
    runs = times.with_columns(run=pl.col("is_kept").cum_sum()).filter(~pl.col("is_kept"))
    ends = runs.group_by("run", maintain_order=True).agg(
        first=pl.col("applied_at").min(), last=pl.col("applied_at").max()
    )
    return list(ends.select("first", "last").iter_rows())


def versions_in_cuts(warehouse: Warehouse) -> dict[str, frozenset[int]]:
    """Table -> its versions that cuts name. The cuts are read some at a time."""
    table = Table.open(warehouse, NAME)
    found: dict[str, set[int]] = defaultdict(set)
    for rows in table.batches(["tables"], "channel is not null") if table is not None else ():
        for named in rows["tables"].chunks:
            pairs = pl.DataFrame({"path": named.keys, "version": named.items}).unique()
            for path, version in pairs.iter_rows():
                found[path].add(version)
    return {path: frozenset(versions) for path, versions in found.items()}


def newest_cuts(warehouse: Warehouse) -> list[Cut]:
    """Return the newest cut of each channel, however old it is."""
    found = (latest_cut(warehouse, channel) for channel in channels_with_cuts(warehouse))
    return [cut for cut in found if cut is not None]


def _of(channel: str) -> str:
    return f"channel = {literal(channel)}"


def was_made_after(cut: Cut, table: Table | None) -> bool:
    """Return whether a table of a cut was rebuilt since (rebuilt): the cut's version of it is another one then, or
    gone."""
    if table is None or cut.applied_at is None:
        return True
    # Both by our clock; the table knows milliseconds.
    return table.created_ms > epoch_ms(cut.applied_at)


def was_rebuilt_after(warehouse: Warehouse, cut: Cut, path: str) -> bool:
    """Return whether a table that is not open was rebuilt after the cut. One that cannot be read was not: the cut's
    version of it is all there is."""
    try:
        return was_made_after(cut, Table.open(warehouse, path))
    except TableDamaged:
        return False


@retry_on_conflict
def add_cut(warehouse: Warehouse, cut: Cut, applied_at: datetime) -> bool:
    """Append a cut unless it is the newest one already. Raises `ConcurrentCommit`."""
    newest = latest_cut(warehouse, cut.channel)
    if (
        newest is not None
        and newest.shows_the_same(cut)
        and not any(was_rebuilt_after(warehouse, newest, path) for path in newest.tables)
    ):
        return False
    table = Table.open_or_create(warehouse, NAME, CONSISTENT_CUTS)
    table.add_columns([field for field in CONSISTENT_CUTS if field.name not in table.schema.names])
    row = {
        **vars(cut),
        "tables": list(cut.tables.items()),
        "applied_at": applied_at,
        "lagging": [asdict(each) for each in cut.lagging],
        "as_of": list(cut.as_of.items()) or None,
    }
    table.append(pa.Table.from_pylist([row], schema=CONSISTENT_CUTS), {cut.channel: cut.position}, {})
    return True
