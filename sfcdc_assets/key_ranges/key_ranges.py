"""Key-range files: each file of `current_state` covers a range of Ids of its own, sorted by Id.

A batch rewrites only the key ranges it touches. Salesforce Ids grow with creation, so changes of recent records meet in
few key ranges and a batch costs what it touches, not what the table holds (docs/storage-layout.md, "Id-range files").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import polars as pl

TARGET_ROWS, TARGET_BYTES = 62_500, 16_000_000
"""What a file has after a split, at most: 62,500 rows are 6 to 16 MB at 30 columns."""
MAX_ROWS, MAX_BYTES = 125_000, 32_000_000
"""A file over either is split: what a batch pays for a key range is its bytes, and with few columns its rows. Files of
other clients that have more together are no key range of one task: it would hold all of their rows."""

PIECE_BYTES, PIECES = 48_000, 200
"""Where a batch changes few of a file's rows, the file is written again in pieces of so many bytes, or of a 200th part
of the table where that is more: the next such batch writes less. So a table has some hundreds of small files at most.
A file of 80 columns has 15 kB beside its rows, so smaller pieces would mostly be that. Each cut that is kept keeps the
pieces of then: of 128 kB they were most of what a day's cuts of small tables took.
"""
CREATED_CELLS = 2_000_000
"""Values of created records that one task takes, over all columns: for a moment each costs about 250 bytes."""
MERGED_BYTES = 1_000_000
"""Files up to this size are merged into others beside which they lie."""
SAMPLED = 1_000
"""One in so many ids of created records is known when key ranges are cut."""


@dataclass(frozen=True)
class KeyRange:
    """A range of Ids, lower <= Id < upper (upper None: no end), and the files that hold its rows now.

    `files` are the table's own, relative to its root; `pages` those of a snapshot, and `versions` those of `history`
    that a way back needs: both may hold other Ids too. `size`: bytes of `files`. `is_cut`: of `files` too, and their
    other key ranges are written with this one, whether or not anything in it changes. `firsts`: the first Id of each of
    `files`, which follow one another then; empty where they overlap.
    """

    number: int
    lower: str
    upper: str | None
    files: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    size: int = 0
    is_cut: bool = False
    firsts: tuple[str, ...] = ()

    def parts(self, concerned: pl.Series | None) -> tuple[KeyRange, ...]:
        """Find the files that may hold records with these Ids of the range, of any number, or where they come to if
        new, as ranges of neighbouring files: all that a batch of these records reads and writes. The whole range
        for None."""
        if concerned is None or len(self.firsts) < 2:
            return (self,)
        lowers = [self.lower, *self.firsts[1:]]
        numbers = pl.Series(lowers).search_sorted(concerned, side="right").cast(pl.Int64) - 1
        wanted = sorted({max(0, number) for number in numbers.to_list()})
        runs: list[list[int]] = []
        for number in wanted:
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        uppers = [*lowers[1:], self.upper]
        return tuple(
            replace(
                self,
                lower=lowers[run[0]],
                upper=uppers[run[-1]],
                files=tuple(self.files[number] for number in run),
                firsts=tuple(self.firsts[number] for number in run),
            )
            for run in runs
        )

    @property
    def filters(self) -> list[tuple[str, str, str]]:
        """The range as Parquet filters."""
        upper = [("Id", "<", self.upper)] if self.upper is not None else []
        return [("Id", ">=", self.lower), *upper]


@dataclass(frozen=True)
class IdRange:
    """A Parquet file of so many bytes and rows, and the Ids in it, both ends included."""

    path: str
    first: str
    last: str
    size: int = 0
    rows: int = 0


@dataclass(frozen=True)
class LookedInto:
    """What a file of other clients was found to have: how many of the Ids that a batch concerns, and a sample of all
    its Ids, as even as those of the other files."""

    concerned: int
    sample: tuple[str, ...]


def overlapping(files: Iterable[IdRange]) -> list[tuple[IdRange, ...]]:
    """Return the files in groups that share no Id, in Id order. The writer's own are each alone."""
    groups: list[list[IdRange]] = []
    end = ""
    for each in sorted(files, key=lambda file: (file.first, file.last, file.path)):
        if groups and each.first <= end:
            groups[-1].append(each)
        else:
            groups.append([each])
        end = max(end, each.last)
    return [tuple(group) for group in groups]


def is_too_much(files: Iterable[IdRange]) -> bool:
    """Return whether the files are more than one task may hold."""
    some = list(files)
    return sum(file.rows for file in some) > MAX_ROWS or sum(file.size for file in some) > MAX_BYTES


def to_look_into(files: Iterable[IdRange], concerned: pl.Series | None) -> list[IdRange]:
    """Return the files of groups that are too much for one task, if they may hold a record with one of these Ids, of
    any number, or are small ones in such a group that may be merged; None: all files of such groups."""
    crowded = [group for group in overlapping(files) if is_too_much(group)]
    if concerned is None or not crowded:
        return [file for group in crowded for file in group]
    ids = concerned.unique().sort()
    found = []
    for group in crowded:
        may_hold = _may_hold(group, ids)
        span = IdRange("", group[0].first, max(file.last for file in group))
        found += may_hold
        if may_hold or _may_hold([span], ids):
            found += [file for file in _small(group) if file not in may_hold]
    return found


def _may_hold(files: Sequence[IdRange], ids: pl.Series) -> list[IdRange]:
    begin = ids.search_sorted(pl.Series([file.first for file in files]), side="left")
    end = ids.search_sorted(pl.Series([file.last for file in files]), side="right")
    return [file for file, is_in in zip(files, (begin < end).to_list(), strict=True) if is_in]


def _small(files: Iterable[IdRange], room: int | None = None) -> list[IdRange]:
    """Return the smallest files, of `MERGED_BYTES` each and `room` together at most."""
    found, left = [], MERGED_BYTES if room is None else room
    for file in sorted(files, key=lambda file: (file.size, file.path)):
        left -= file.size
        if left < 0 or file.size > MERGED_BYTES:
            break
        found.append(file)
    return found


def to_rewrite(found: Mapping[IdRange, LookedInto]) -> list[IdRange]:
    """Return which of the files that were looked into a batch writes again: those that hold a record it concerns, and
    small ones beside them, so that small files among large ones become fewer."""
    opened = [file for file, looked in found.items() if looked.concerned]
    room = min(MERGED_BYTES, sum(file.size for file in opened)) or MERGED_BYTES
    return opened + _small((file for file in found if file not in opened), room)


def key_ranges_of_table(
    files: Iterable[IdRange],
    created: Sequence[str] = (),
    columns: int = 1,
    looked_into: Mapping[IdRange, LookedInto] = MappingProxyType({}),
) -> tuple[KeyRange, ...]:
    """Return the key ranges of a table with so many columns, in Id order.

    Together they cover every Id: the first has no lower end, the last no upper. Each file lies in one key range as a
    whole; where files overlap they share one, and so do small neighbours that are no more than a file after a split. An
    empty table is one key range without files. New records have Ids
    after all others; `created`, every `SAMPLED`th of them, cuts key ranges for them, so that no task is given more than
    about `CREATED_CELLS` of their values.

    Of files that overlap and are too much for one task, those `to_rewrite` alone have key ranges, each of as many rows
    as a file has after a split; the others stay where they are. `looked_into`: what all `to_look_into` have.
    """
    files = list(files)
    parts: list[tuple[str, tuple[IdRange, ...], int, bool]] = []  # where a key range begins, files, bytes, is cut
    for group in _neighbours(overlapping(files)):
        if not is_too_much(group):
            parts.append((group[0].first, group, sum(file.size for file in group), False))
        else:
            opened = to_rewrite({file: looked_into[file] for file in group if file in looked_into})
            parts += _cut(group[0].first, opened, looked_into)
    end = max((file.last for file in files), default="")
    step = max(1, CREATED_CELLS // columns // SAMPLED)
    parts = parts or [("", (), 0, False)]
    parts += [(lower, (), 0, False) for lower in sorted(each for each in created if each > end)[step - 1 :: step]]
    lowers = ["", *(lower for lower, *_ in parts[1:])]
    uppers = [*lowers[1:], None]
    return tuple(
        KeyRange(
            number,
            lower,
            upper,
            tuple(file.path for file in some),
            size=size,
            is_cut=is_cut,
            firsts=tuple(file.first for file in some) if len(overlapping(some)) == len(some) and not is_cut else (),
        )
        for number, (lower, upper, (_, some, size, is_cut)) in enumerate(zip(lowers, uppers, parts, strict=True))
    )


def _neighbours(groups: Iterable[tuple[IdRange, ...]]) -> Iterator[tuple[IdRange, ...]]:
    """Put single files together that are no more than a file after a split."""
    some: list[IdRange] = []
    for group in groups:
        more = [*some, *group]
        is_small = sum(file.rows for file in more) <= TARGET_ROWS and sum(file.size for file in more) <= TARGET_BYTES
        if some and (len(group) > 1 or not is_small):
            yield tuple(some)
            some = []
        if len(group) > 1:
            yield group
        else:
            some += group
    if some:
        yield tuple(some)


def _cut(
    first: str, opened: Sequence[IdRange], looked_into: Mapping[IdRange, LookedInto]
) -> Iterator[tuple[str, tuple[IdRange, ...], int, bool]]:
    """Key ranges of the files, of which each holds what a task may; the first begins with an Id."""
    size = sum(file.size for file in opened)
    count = key_ranges_wanted(sum(file.rows for file in opened), size) if is_too_much(opened) else 1
    sample = sorted(record_id for file in opened for record_id in looked_into[file].sample)
    lowers = [first, *(cut for cut in cuts_of(sample, count) if cut > first)]
    for lower, upper in zip(lowers, [*lowers[1:], None], strict=True):
        within = tuple(file for file in opened if file.last >= lower and (upper is None or file.first < upper))
        yield lower, within, size // len(lowers), len(lowers) > 1


def piece_bytes(table_bytes: int) -> int:
    """Return the bytes that a piece of a table of so many bytes is to have."""
    return max(PIECE_BYTES, table_bytes // PIECES)


def cuts_of(ordered: Sequence[str], count: int) -> list[str]:
    """Return where to cut sorted Ids into so many parts of about as many."""
    return sorted({ordered[len(ordered) * n // count] for n in range(1, count)}) if ordered else []


def key_ranges_wanted(rows: int, size: int) -> int:
    """Return how many key ranges a snapshot of so many rows and bytes is cut into."""
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
    cuts = cuts_of(sorted(sampled_ids), count)
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
    """Return the key ranges that the record ids, of any number, lie in."""
    lowers = pl.Series([key_range.lower for key_range in key_ranges])
    return frozenset((lowers.search_sorted(record_ids, side="right").cast(pl.Int64) - 1).unique().to_list())


def range_numbers(key_ranges: Sequence[KeyRange], record_ids: Sequence[str]) -> list[int]:
    """Return the key range of each record id."""
    lowers = [key_range.lower for key_range in key_ranges]
    return [bisect_right(lowers, record_id) - 1 for record_id in record_ids]
