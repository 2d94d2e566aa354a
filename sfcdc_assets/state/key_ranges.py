"""key-range files: each file of `current_state` covers a range of Ids of its own, sorted by Id.

A batch rewrites only the key ranges it touches. Salesforce Ids grow with creation, so changes of recent records meet in
few key ranges and a batch costs what it touches, not what the table holds (docs/storage-layout.md, "Id-range files").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

TARGET_ROWS, TARGET_BYTES = 62_500, 16_000_000
"""What a file has after a split, at most: 62,500 rows are 6 to 16 MB at 30 columns."""

CREATED_CELLS = 2_000_000
"""Values of created records that one task takes, over all columns: for a moment each costs about 250 bytes."""
SAMPLED = 1_000
"""One in so many ids of created records is known when key ranges are cut."""


@dataclass(frozen=True)
class KeyRange:
    """A range of Ids, lower <= Id < upper (upper None: no end), and the files that hold its rows now.

    `files` are the table's own, relative to its root; `pages` those of a snapshot, and `versions` those of `history`
    that a way back needs: both may hold other Ids too. `size`: bytes of `files`.
    """

    number: int
    lower: str
    upper: str | None
    files: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    size: int = 0

    @property
    def filters(self) -> list[tuple[str, str, str]]:
        """The range as Parquet filters."""
        upper = [("Id", "<", self.upper)] if self.upper is not None else []
        return [("Id", ">=", self.lower), *upper]


@dataclass(frozen=True)
class IdRange:
    """A Parquet file of so many bytes and the Ids in it, both ends included."""

    path: str
    first: str
    last: str
    size: int = 0


def key_ranges_of_table(
    files: Iterable[IdRange], created: Sequence[str] = (), columns: int = 1
) -> tuple[KeyRange, ...]:
    """The key ranges of a table with so many columns, in Id order.

    Together they cover every Id: the first has no lower end, the last no upper. Each file lies in one key range as a
    whole; where ranges overlap they share one. An empty table is one key range without files. New records have Ids
    after all others; `created`, every `SAMPLED`th of them, cuts key ranges for them, so that no task is given more than
    about `CREATED_CELLS` of their values.
    """
    groups: list[list[IdRange]] = []
    end = ""
    for each in sorted(files, key=lambda file: (file.first, file.last, file.path)):
        if groups and each.first <= end:
            groups[-1].append(each)
        else:
            groups.append([each])
        end = max(end, each.last)
    groups = groups or [[]]
    lowers = ["", *(group[0].first for group in groups[1:])]
    step = max(1, CREATED_CELLS // columns // SAMPLED)
    lowers += sorted(record_id for record_id in created if record_id > end)[step - 1 :: step]
    groups += [[] for _ in lowers[len(groups) :]]
    uppers = [*lowers[1:], None]
    return tuple(
        KeyRange(number, lower, upper, tuple(file.path for file in group), size=sum(file.size for file in group))
        for number, (lower, upper, group) in enumerate(zip(lowers, uppers, groups, strict=True))
    )


def key_ranges_wanted(rows: int, size: int) -> int:
    """How many key ranges a snapshot of so many rows and bytes is cut into."""
    return max(1, -(-rows // TARGET_ROWS), -(-size // TARGET_BYTES))


def key_ranges_of_snapshot(
    sampled_ids: Sequence[str],
    rows: int,
    size: int,
    pages: Iterable[IdRange],
    files: Iterable[IdRange],
    versions: Iterable[IdRange] = (),
) -> tuple[KeyRange, ...]:
    """Key ranges of about `TARGET_ROWS` rows or `TARGET_BYTES`, whichever are fewer, for a snapshot of `rows` rows
    whose pages have `size` bytes, from an even sample of its Ids.

    Each key range names the pages and the table's present files that may hold rows of its range.
    """
    count = key_ranges_wanted(rows, size)
    ordered = sorted(sampled_ids)
    cuts = sorted({ordered[len(ordered) * n // count] for n in range(1, count)}) if ordered else []
    lowers = ["", *cuts]
    uppers = [*cuts, None]
    pages, files, versions = tuple(pages), tuple(files), tuple(versions)
    return tuple(
        KeyRange(
            number,
            lower,
            upper,
            files=_within(files, lower, upper),
            pages=_within(pages, lower, upper),
            versions=_within(versions, lower, upper),
        )
        for number, (lower, upper) in enumerate(zip(lowers, uppers, strict=True))
    )


def _within(files: Iterable[IdRange], lower: str, upper: str | None) -> tuple[str, ...]:
    return tuple(file.path for file in files if file.last >= lower and (upper is None or file.first < upper))


def ranges_of_ids(key_ranges: Sequence[KeyRange], record_ids: pl.Series) -> frozenset[int]:
    """The key ranges that the record ids, of any number, lie in."""
    lowers = pl.Series([key_range.lower for key_range in key_ranges])
    return frozenset((lowers.search_sorted(record_ids, side="right").cast(pl.Int64) - 1).unique().to_list())


def range_numbers(key_ranges: Sequence[KeyRange], record_ids: Sequence[str]) -> list[int]:
    """The key range of each record id."""
    lowers = [key_range.lower for key_range in key_ranges]
    return [bisect_right(lowers, record_id) - 1 for record_id in record_ids]
