"""Reading a unified diff as Salesforce sends it (docs/salesforce-streams.md, "Large-text diffs").

    --- <nothing>
    +++ <SHA-256 of the UTF-8 new value, 64 hex digits>
    @@ -a,b +c,d @@          ",b" and ",d" may be left out when 1
    -removed / +added / <blank>context / \\ No newline at end of file

The counts in a hunk's header decide which lines are its body, never what the lines look like: lines of a text may
begin with `+`, `-`, `@@`, `---` or be empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sfcdc_assets.text_diff.errors import TextDiffError
from sfcdc_assets.text_diff.lines import Lines

_HEADER = re.compile(
    rb"@@[ \t]+-([0-9]{1,9})(?:,([0-9]{1,9}))?[ \t]+\+([0-9]{1,9})(?:,([0-9]{1,9}))?[ \t]+@@(?:[ \t\r].*)?", re.DOTALL
)
_SHA256 = re.compile(rb"[0-9A-Fa-f]{64}")
_LONGEST_TRIMMED_CONTEXT = 3  # empty context lines that trimming may have taken off the end of a diff


class Mark(Enum):
    """The first character of a body line."""

    CONTEXT = b" "
    REMOVED = b"-"
    ADDED = b"+"


@dataclass(frozen=True, slots=True)
class BodyLine:
    """One line of a hunk. `shown_end` is what separates it from the next in the diff: a hint at its end at most."""

    mark: Mark
    content: bytes
    shown_end: bytes


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk, `number` from 1, starts and counts as its header has them; counts agree with the body."""

    number: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    body: tuple[BodyLine, ...]


@dataclass(frozen=True, slots=True)
class UnifiedDiff:
    """A diff that is one. `closed`: whether the new value closes with a line end, None if the diff does not say."""

    sha256: str
    hunks: tuple[Hunk, ...]
    closed: bool | None


def read_unified_diff(diff: Lines) -> UnifiedDiff:
    """Read a diff; raises TextDiffError naming the line or hunk at fault."""
    sha256 = _read_sha256(diff)
    hunks: list[Hunk] = []
    unended: set[Mark] = set()
    index, number = 2, 0
    while index < len(diff):
        found = _HEADER.fullmatch(diff.content(index))
        if found is None:
            if any(diff.content(rest).strip() for rest in range(index, len(diff))):
                raise TextDiffError(f"line {index + 1} of the diff is not the header of a hunk", line=index + 1)
            break
        old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in found.groups())
        number += 1
        reader = _BodyReader(diff, index + 1, number, old_count, new_count)
        if body := tuple(reader):  # `@@ -0,0 +0,0 @@`, a hunk of nothing, is legal and says nothing
            hunks.append(Hunk(number, old_start, old_count, new_start, new_count, body))
        unended |= reader.unended
        index = reader.index
    closed = False if unended & {Mark.ADDED, Mark.CONTEXT} else True if unended else None
    return UnifiedDiff(sha256, tuple(hunks), closed)


def _read_sha256(diff: Lines) -> str:
    if len(diff) < 2 or not diff.content(0).startswith(b"---") or not diff.content(1).startswith(b"+++"):
        raise TextDiffError("it does not begin with a `---` line and a `+++` line")
    claimed = diff.content(1)[3:].strip()
    if _SHA256.fullmatch(claimed) is None:
        raise TextDiffError(f"its `+++` line has no SHA-256 of 64 hex digits ({len(claimed)} characters)", line=2)
    return claimed.decode("ascii").lower()


class _BodyReader:
    """Yields the body of one hunk until the header's counts are met; `index` is then the first line after it."""

    def __init__(self, diff: Lines, index: int, number: int, old_count: int, new_count: int) -> None:
        self.index = index
        self.unended: set[Mark] = set()  # marks of the lines said to have no end
        self._diff = diff
        self._number = number
        self._left = {Mark.REMOVED: old_count, Mark.ADDED: new_count}

    def __iter__(self) -> Iterator[BodyLine]:
        last: Mark | None = None
        while any(self._left.values()):
            line = self._next_line()
            if line is None:
                self._unended_by(last)
                continue
            last = line.mark
            yield line
        if self.index < len(self._diff) and self._diff.content(self.index).startswith(b"\\"):
            self._unended_by(last)
            self.index += 1

    def _next_line(self) -> BodyLine | None:
        """Return the next line of the body; None for the remark that the line before it has no end."""
        if self.index >= len(self._diff):
            return self._trimmed_context()
        text, shown_end = self._diff.content(self.index), self._diff.end(self.index)
        self.index += 1
        if text.startswith(b"\\"):
            return None
        if text in (b"", b"\r"):  # an empty context line that lost its blank
            mark, content = Mark.CONTEXT, text
        else:
            mark, content = self._mark(text[:1]), text[1:]
        self._count(mark)
        return BodyLine(mark, content, shown_end)

    def _mark(self, first: bytes) -> Mark:
        for mark in Mark:
            if mark.value == first:
                return mark
        raise self._error("begins with none of `+`, `-` and a blank")

    def _count(self, mark: Mark) -> None:
        for side in self._left if mark is Mark.CONTEXT else (mark,):
            if self._left[side] == 0:
                raise self._error("is one more than the hunk's header counts")
            self._left[side] -= 1

    def _trimmed_context(self) -> BodyLine:
        left = self._left[Mark.REMOVED]
        if left != self._left[Mark.ADDED] or left > _LONGEST_TRIMMED_CONTEXT:
            raise TextDiffError("the diff ends before the lines its header counts", hunk=self._number)
        self._count(Mark.CONTEXT)
        return BodyLine(Mark.CONTEXT, b"", b"")

    def _unended_by(self, mark: Mark | None) -> None:
        if mark is None:
            raise self._error("speaks of a line end before any line")
        self.unended.add(mark)

    def _error(self, problem: str) -> TextDiffError:
        return TextDiffError(f"line {self.index} of the diff {problem}", hunk=self._number, line=self.index)
