"""Where in the base each hunk belongs. Three readings of the same numbers, most trusted first; the hash decides.

A hunk with old lines starts at old line `a`. One without (`@@ -7,0 +7,2 @@`, zero context) is where writers differ:
java-diff-utils, which Salesforce's documentation points to, inserts BEFORE old line 7; POSIX diff AFTER it. The number
of the first new line is not disputed, and tells the place too if the writer kept its books.
"""

from __future__ import annotations

from sfcdc_assets.text_diff.hunks import Hunk


def placements(hunks: tuple[Hunk, ...]) -> list[tuple[int, ...]]:
    """For each reading, the index (from 0) of the base line before which each hunk starts; equal readings once."""
    readings = (_by_new_lines(hunks), _as_java_diff_utils(hunks), _as_posix(hunks))
    return list(dict.fromkeys(readings))


def _as_java_diff_utils(hunks: tuple[Hunk, ...]) -> tuple[int, ...]:
    return tuple(max(hunk.old_start - 1, 0) for hunk in hunks)


def _as_posix(hunks: tuple[Hunk, ...]) -> tuple[int, ...]:
    return tuple(max(hunk.old_start - 1, 0) if hunk.old_count else hunk.old_start for hunk in hunks)


def _by_new_lines(hunks: tuple[Hunk, ...]) -> tuple[int, ...]:
    places: list[int] = []
    grown = 0  # lines that the hunks before added less those they removed
    for hunk in hunks:
        # java-diff-utils writes `-0,b` for the only hunk of a diff against a file without a name, wherever it is.
        disputed = hunk.new_count > 0 and (hunk.old_count == 0 or hunk.old_start == 0)
        old_start = hunk.new_start - grown if disputed else hunk.old_start
        places.append(max(old_start - 1, 0))
        grown += hunk.new_count - hunk.old_count
    return tuple(places)
