"""What the emulated org sends of a changed large text field: a unified diff, or the full value.

Written from Salesforce's documentation ("Sending Data Differences for Fields of Updated Records",
docs/salesforce-streams.md, "Large-text diffs") and apart from the package that reads diffs, so that a mistake in one
does not hide in the other.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal, get_args

from sfcdc_assets.emulator.events.line_matching import Replacement, replacements

Convention = Literal["java-diff-utils", "posix"]

LEAST_LENGTH = 1000  # characters
MOST_CHANGED_LENGTH = 0.50  # of the new value's characters
MOST_CHANGED_LINES = 0.25  # of the lines of both values

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


def text_difference(before: str, after: str, convention: Convention = "java-diff-utils") -> str | None:
    """Return the diff sent for a change, or None where Salesforce sends the full value.

    The full value is sent if it is shorter than 1,000 characters; if more than 50 % of its length is changed (the
    longer of the removed and the added lines); if more than 25 % of the lines of both values are changed (a line
    replaced by another counts once: the documentation's own sample has 2 of 7 replaced); if the diff is longer than
    the value; if there is no line to send (only line ends differ).
    """
    if len(after) < LEAST_LENGTH:
        return None
    old, new = _lines(before), _lines(after)
    if _shares_too_little(old, new, len(after)):
        return None
    changes = replacements(old, new)
    if not changes or _too_much(changes, old, new, len(after)):
        return None
    diff = _written(changes, old, new, after, convention)
    return None if len(diff) > len(after) else diff


def unified_difference(before: str, after: str, convention: Convention = "java-diff-utils") -> str:
    """Return the diff of two values whatever its size. Without context; lines are compared without their ends.

    Hunks that only insert are numbered as the convention has it: before old line a (java-diff-utils), after it (posix).
    """
    old, new = _lines(before), _lines(after)
    return _written(replacements(old, new), old, new, after, convention)


def _lines(text: str) -> list[str]:
    """Lines as Java's BufferedReader reads them: a line end at the close of the text opens no further line."""
    lines = _LINE_BREAK.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def _shares_too_little(old: list[str], new: list[str], length: int) -> bool:
    """Return whether any diff is `_too_much`: what only one of the values has is in all of them. It spares the matching
    of values that have nothing in common, which takes longest."""
    before, after = Counter(old), Counter(new)
    removed = sum(len(line) * count for line, count in (before - after).items())
    added = sum(len(line) * count for line, count in (after - before).items())
    return max(removed, added) > MOST_CHANGED_LENGTH * length


def _too_much(changes: list[Replacement], old: list[str], new: list[str], length: int) -> bool:
    lines = sum(max(change.old_stop - change.old_start, change.new_stop - change.new_start) for change in changes)
    removed = sum(len(line) for change in changes for line in old[change.old_start : change.old_stop])
    added = sum(len(line) for change in changes for line in new[change.new_start : change.new_stop])
    return max(removed, added) > MOST_CHANGED_LENGTH * length or lines > MOST_CHANGED_LINES * (len(old) + len(new))


def _written(changes: list[Replacement], old: list[str], new: list[str], after: str, convention: Convention) -> str:
    if convention not in get_args(Convention):
        raise ValueError(f"{convention!r} is no hunk convention: one of {', '.join(get_args(Convention))}")
    # Java writes "?" for half a surrogate pair, which UTF-8 cannot carry.
    sha256 = hashlib.sha256(after.encode("utf-8", errors="replace")).hexdigest()
    rows = ["--- ", f"+++ {sha256}"]
    for change in changes:
        rows.append(_header(change, convention))
        rows += (f"-{line}" for line in old[change.old_start : change.old_stop])
        rows += (f"+{line}" for line in new[change.new_start : change.new_stop])
    return "\n".join(rows)


def _header(change: Replacement, convention: Convention) -> str:
    old_count, new_count = change.old_stop - change.old_start, change.new_stop - change.new_start
    if convention == "java-diff-utils":
        return f"@@ -{change.old_start + 1},{old_count} +{change.new_start + 1},{new_count} @@"
    return "@@ -{} +{} @@".format(*_posix_ranges((change.old_start, old_count), (change.new_start, new_count)))


def _posix_ranges(*ranges: tuple[int, int]) -> Iterator[str]:
    """Yield the ranges of a hunk. An empty range is named by the line before it, a count of 1 is left out."""
    for start, count in ranges:
        yield f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"
