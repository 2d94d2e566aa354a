"""In which order the readings of a batch stand, and where the events before each of them stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot, ReadBack
from sfcdc_assets.timeline.timeline import OrgRead


def org_reads_in_order(
    complete: Sequence[CompleteSnapshot],
    new: Sequence[CompleteSnapshot],
    read_backs: Sequence[ReadBack],
    suspected: Sequence[int],
) -> tuple[OrgRead, ...]:
    """Return new snapshots and read-backs in the order of their watermarks, those of one watermark in that of their
    reading. An entry about the entity stops events until the next snapshot, which answers it."""
    read_after = {each.number: each.after_read_back for each in new}
    found = [
        OrgRead(each.position, 0, snapshot=each.number, pages=frozenset(file.path for file in each.files))
        for each in new
    ]
    found += [
        OrgRead(each.position, 0, read_back=each.number, seen_until=each.seen_until, polled=each.seen_until is not None)
        for each in read_backs
    ]
    watermarks = [-1, *(snapshot.position for snapshot in complete)]
    return tuple(
        replace(
            each,
            until=min(
                [
                    each.position,
                    *(d - 1 for d in suspected if last_below(watermarks, each.position) < d <= each.position),
                ]
            ),
        )
        for each in sorted(
            found,
            key=lambda each: (each.position, each.read_back or read_after[each.snapshot], each.snapshot),
        )
    )


def last_below(watermarks: Sequence[int], position: int) -> int:
    """Return the last snapshot's watermark before a position: entries up to it were answered by it."""
    return max(watermark for watermark in watermarks if watermark < position)
