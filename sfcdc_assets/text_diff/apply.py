"""Laying the hunks on the base: what the new text is, but for the line ends that no diff carries."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfcdc_assets.text_diff.errors import TextDiffError
from sfcdc_assets.text_diff.hunks import BodyLine, Hunk, Mark, UnifiedDiff
from sfcdc_assets.text_diff.lines import Lines


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """A line end the diff does not say, and what surrounds it; None where there is no such line.

    `counterpart`: the end of the line it replaces, or its own if it is `kept` (only the text's last line and what was
    the base's are open then). `before`, `after`: ends of the nearest unchanged lines, `before` None too if the line
    before has an open end itself. `shown`: what follows the line in the diff.
    """

    kept: bool
    counterpart: bytes | None
    before: bytes | None
    after: bytes | None
    shown: bytes | None


@dataclass(frozen=True, slots=True)
class Outline:
    """A new text: pieces[0] open_ends[0] pieces[1] open_ends[1] ... pieces[-1].

    The last open end is that of the text's last line (there is none only if the text is empty); `closed` says whether
    it is likely to have one.
    """

    base: Lines
    pieces: tuple[bytes, ...]
    open_ends: tuple[OpenEnd, ...]
    closed: bool

    def text(self, ends: Sequence[bytes]) -> bytes:
        """Return the text with these ends in the open places."""
        parts = [self.pieces[0]]
        for end, piece in zip(ends, self.pieces[1:], strict=True):
            parts += (end, piece)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Base lines first to stop (excluded)."""

    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Added:
    line: BodyLine
    counterpart: bytes | None


def apply_hunks(base: Lines, diff: UnifiedDiff, places: tuple[int, ...]) -> Outline:
    """Lay each hunk at its place. Raises TextDiffError if one is outside the text, out of order or does not match."""
    parts: list[_Kept | _Added] = []
    done = 0
    for hunk, place in zip(diff.hunks, places, strict=True):
        _check_bounds(hunk, place, done, base)
        _keep(parts, done, place)
        done = _lay(parts, hunk, place, base)
    _keep(parts, done, len(base))
    return _outline(parts, base, closed_by_diff=diff.closed)


def _check_bounds(hunk: Hunk, place: int, done: int, base: Lines) -> None:
    if place + hunk.old_count > len(base):
        problem = f"it reaches base line {place + hunk.old_count}, the base has {base.visible}"
        raise TextDiffError(problem, hunk=hunk.number, line=place + hunk.old_count)
    if place < done:
        raise TextDiffError(f"it starts at base line {place + 1}, before the hunk above it ends", hunk=hunk.number)


def _keep(parts: list[_Kept | _Added], first: int, stop: int) -> None:
    if first == stop:
        return
    if parts and isinstance(last := parts[-1], _Kept) and last.stop == first:
        parts[-1] = _Kept(last.first, stop)
    else:
        parts.append(_Kept(first, stop))


def _lay(parts: list[_Kept | _Added], hunk: Hunk, place: int, base: Lines) -> int:
    removed_ends: deque[bytes] = deque()  # of the removed lines that no added line has replaced yet
    for line in hunk.body:
        if line.mark is not Mark.ADDED:
            if base.content(place) != line.content:
                problem = f"base line {place + 1} is not the line the diff has there"
                raise TextDiffError(problem, hunk=hunk.number, line=place + 1)
            place += 1
        if line.mark is Mark.REMOVED:
            removed_ends.append(base.end(place - 1))
        elif line.mark is Mark.CONTEXT:
            removed_ends.clear()
            _keep(parts, place - 1, place)
        else:
            parts.append(_Added(line, removed_ends.popleft() if removed_ends else None))
    return place


def _outline(parts: list[_Kept | _Added], base: Lines, *, closed_by_diff: bool | None) -> Outline:
    last_line = len(base) - 1
    closed = False
    if base.closed and parts and isinstance(last := parts[-1], _Kept) and last.stop == len(base):
        # The empty line after the base's last line end is none of the text's own: the end before it closes the text.
        closed = True
        parts = parts[:-1] + ([_Kept(last.first, last_line)] if last.first < last_line else [])
    pieces: list[bytes] = []
    ends: list[OpenEnd] = []
    piece: list[bytes | memoryview] = []
    before: bytes | None = None
    for position, part in enumerate(parts):
        if isinstance(part, _Added):
            piece.append(part.line.content)
            opened = OpenEnd(
                kept=False, counterpart=part.counterpart, before=before, after=None, shown=part.line.shown_end
            )
        elif position == len(parts) - 1 or part.stop == len(base):
            # The last line kept at the end of the text, or the base's last line that is last no more.
            final = part.stop - 1
            piece += (base.run(part.first, final), base.content(final))
            before = base.end(final - 1) if final > part.first else before
            opened = OpenEnd(kept=True, counterpart=base.end(final), before=before, after=None, shown=None)
        else:
            piece.append(base.run(part.first, part.stop))
            before = base.end(part.stop - 1)
            continue
        pieces.append(b"".join(piece))
        ends.append(opened)
        piece, before = [], None
    pieces.append(b"".join(piece))
    return Outline(
        base,
        tuple(pieces),
        _with_ends_after(ends, parts, base),
        closed if closed_by_diff is None else closed_by_diff,
    )


def _with_ends_after(ends: list[OpenEnd], parts: list[_Kept | _Added], base: Lines) -> tuple[OpenEnd, ...]:
    """Fill in `after`, walking back from the end of the text."""
    after: bytes | None = None
    filled: list[OpenEnd] = []
    remaining = list(ends)
    for position in range(len(parts) - 1, -1, -1):
        part = parts[position]
        if isinstance(part, _Added) or position == len(parts) - 1 or part.stop == len(base):
            end = remaining.pop()
            filled.append(replace(end, after=after))
        if isinstance(part, _Kept):
            after = base.end(part.first) or after
    return tuple(reversed(filled))
