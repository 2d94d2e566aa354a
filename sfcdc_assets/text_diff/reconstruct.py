"""From the last known value and a diff to the new value, accepted only with the hash in the diff."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sfcdc_assets.text_diff.apply import Outline, apply_hunks
from sfcdc_assets.text_diff.errors import TextDiffError
from sfcdc_assets.text_diff.hunks import Hunk, read_unified_diff
from sfcdc_assets.text_diff.line_ends import in_one_style, likely_ends, whole_guesses
from sfcdc_assets.text_diff.lines import LineBreaks, Lines
from sfcdc_assets.text_diff.search import Budget, LineEndSearch


def placements(hunks: tuple[Hunk, ...]) -> list[tuple[int, ...]]:
    """Return for each reading the index (from 0) of the base line before which each hunk starts; equal readings
    once."""
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


# The bounds of each of the two searches, which follow the guesses of one rule throughout (at most some 70 a reading of
# the numbers and line breaks; most often the first is right).
MOST_GUESSES, MOST_BYTES_HASHED = 65_536, 1 << 30
_SHARE_OF_ONE_STYLE = 16  # a value with one style of line ends seldom gets a stray one: the search is cut to 1/16
_DEEPEST_DIFFERENCE = 32  # more places differing at once are beyond the bounds in any case
_BLANKS = bytes(range(0x21))  # what Salesforce (Java's String.trim) takes off both ends of a value


def reconstruct_text(base: str, diff: str) -> str:
    """Return the new value of a large text field, proven by the SHA-256 in the diff.

    `base` is the last value known before the event, `diff` the unified diff the event carries
    (docs/salesforce-streams.md, "Large-text diffs"). Raises TextDiffError if the diff is not one, does not fit the
    base, or no text it can mean has its hash: then the field is suspect and has to be read from the org. Never returns
    a text with another hash.
    """
    base_bytes, diff_bytes = _utf8(base, "base"), _utf8(diff, "diff")
    sha256, outlines = _outlines(base_bytes, diff_bytes)
    proven = _prove(outlines, bytes.fromhex(sha256))
    if proven is None:
        found = hashlib.sha256(outlines[0].text(likely_ends(outlines[0]))).hexdigest()
        problem = "no text it can mean has its hash; most likely the base is not the one it was made from"
        raise TextDiffError(problem, expected=sha256, found=found)
    return proven.decode("utf-8")


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextDiffError(f"the {what} has half a surrogate pair at character {error.start + 1}") from error


def _outlines(base: bytes, diff: bytes) -> tuple[str, list[Outline]]:
    """Return the claimed hash and every way to lay the diff on the base, most likely first; at least one."""
    outlines: list[Outline] = []
    refusal: TextDiffError | None = None
    sha256 = ""
    for breaks in LineBreaks.possible(base, diff):
        try:
            read = read_unified_diff(Lines(diff, breaks))
        except TextDiffError as error:
            refusal = refusal or error
            continue
        sha256 = read.sha256
        lines = Lines(base, breaks)
        for places in placements(read.hunks):
            try:
                outlines.append(apply_hunks(lines, read, places))
            except TextDiffError as error:
                refusal = refusal or error
    if not outlines and refusal is not None:
        raise refusal
    return sha256, outlines


def _prove(outlines: list[Outline], sha256: bytes) -> bytes | None:
    for text in _likely_texts(outlines):
        if hashlib.sha256(text).digest() == sha256:
            return text
    proven = _search_open_ends(outlines, sha256, Budget(MOST_GUESSES, MOST_BYTES_HASHED))
    if proven is None:
        share = 1 if _mixes_ends(outlines[0].base) else _SHARE_OF_ONE_STYLE
        budget = Budget(MOST_GUESSES // share, MOST_BYTES_HASHED // share)
        proven = _search_every_end(outlines, sha256, budget)
    return proven


def _likely_texts(outlines: list[Outline]) -> Iterator[bytes]:
    for outline in outlines:
        for ends in whole_guesses(outline):
            yield outline.text(ends)
    for outline in outlines:
        for closed in (likely_ends(outline), _last_toggled(outline)):
            yield from in_one_style(outline.text(closed), outline.base.breaks)
    for outline in outlines:
        for ends in whole_guesses(outline):
            text = outline.text(ends)
            trimmed = text.strip(_BLANKS)
            if trimmed != text:
                yield trimmed
                yield from in_one_style(trimmed, outline.base.breaks)


def _last_toggled(outline: Outline) -> tuple[bytes, ...]:
    ends = likely_ends(outline)
    if not ends:
        return ends
    return (*ends[:-1], b"" if ends[-1] else outline.base.ends_by_frequency[0])


def _mixes_ends(lines: Lines) -> bool:
    first = lines.end(0)
    return any(lines.end(index) != first for index in range(len(lines) - 1))


def _search_open_ends(outlines: list[Outline], sha256: bytes, budget: Budget) -> bytes | None:
    searches = [LineEndSearch.over_open_ends(outline, sha256) for outline in outlines]
    deepest = max(search.open_places for search in searches)
    for differing in range(1, min(deepest, _DEEPEST_DIFFERENCE) + 1):
        for search in searches:
            found = search.with_differing(differing, 0, budget)
            if found is not None or budget.spent:
                return found
    return None


def _search_every_end(outlines: list[Outline], sha256: bytes, budget: Budget) -> bytes | None:
    """Search where any line's end may differ. An unchanged line whose end differs is as unlikely as two open ends that
    differ."""
    searches = [LineEndSearch.over_every_end(outline, sha256) for outline in outlines]
    deepest = max(search.open_places + 2 * search.kept_places for search in searches)
    for unlikely in range(2, min(deepest, _DEEPEST_DIFFERENCE) + 1):
        for kept in range(1, unlikely // 2 + 1):
            for search in searches:
                found = search.with_differing(unlikely - 2 * kept, kept, budget)
                if found is not None or budget.spent:
                    return found
    return None
