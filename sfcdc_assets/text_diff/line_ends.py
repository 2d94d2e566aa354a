"""Likely line ends for the places a diff leaves open, most likely first, and whole texts re-ended in one style."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sfcdc_assets.text_diff.apply import OpenEnd, Outline
from sfcdc_assets.text_diff.lines import CR, CRLF, LF, LineBreaks

Ends = tuple[bytes, ...]
_Rule = Callable[[OpenEnd, bytes | None], bytes | None]  # open end, choice for the line before -> choice


def likely_ends(outline: Outline) -> Ends:
    """Return the first guess: the end of the line replaced, else of the line before, else of the line after, else the
    value's most frequent one; the last line has an end if the base's has."""
    return _chosen(outline, _likely, closed=outline.closed)


def whole_guesses(outline: Outline) -> Iterator[Ends]:
    """Guesses that follow one rule throughout, each with the last line as likely and otherwise; none twice.

    At most 16 of them.
    """
    seen: set[Ends] = set()
    rules: tuple[_Rule, ...] = (
        _likely,
        lambda end, _previous: end.shown,  # a writer that kept the lines' ends shows them in the diff
        _always(outline.base.ends_by_frequency[0]),
        lambda end, previous: end.before or previous,
        lambda end, _previous: end.after,
        *(_always(end) for end in outline.base.breaks.ends),
    )
    for closed in (outline.closed, not outline.closed):
        for rule in rules:
            ends = _chosen(outline, rule, closed=closed)
            if ends not in seen:
                seen.add(ends)
                yield ends


def end_choices(outline: Outline) -> list[Ends]:
    """Return for each open place every end it can have, the first guess first."""
    frequent = outline.base.ends_by_frequency
    likely = likely_ends(outline)
    shared: dict[bytes, Ends] = {}
    choices = [shared.setdefault(end, tuple(dict.fromkeys((end, *frequent)))) for end in likely]
    if choices:
        choices[-1] = tuple(dict.fromkeys((likely[-1], b"", *frequent)))
    return choices


def in_one_style(text: bytes, breaks: LineBreaks) -> Iterator[bytes]:
    """Yield the text with every line end made CRLF, then LF, then CR: what a browser or a script does on the way in.

    A diff that compares lines without their ends does not show it. None if it changes nothing.
    """
    if breaks is LineBreaks.LF_ONLY:
        return
    if CR not in text:
        as_lf = text
    elif breaks is LineBreaks.UNIVERSAL:
        as_lf = text.replace(CRLF, LF).replace(CR, LF)
    else:
        as_lf = text.replace(CRLF, LF)
    for end in (CRLF, LF, CR):
        if end in breaks.ends and (restyled := as_lf.replace(LF, end)) != text:
            yield restyled


def _likely(end: OpenEnd, previous: bytes | None) -> bytes | None:
    return end.counterpart or end.before or previous or end.after


def _always(end: bytes) -> _Rule:
    return lambda _open, _previous: end


def _chosen(outline: Outline, rule: _Rule, *, closed: bool) -> Ends:
    frequent = outline.base.ends_by_frequency[0]
    ends: list[bytes] = []
    previous: bytes | None = None
    for opened in outline.open_ends:
        known = opened.counterpart if opened.kept else None
        choice = known or rule(opened, previous) or _likely(opened, previous) or frequent
        ends.append(choice)
        previous = choice
    if ends and not closed:
        ends[-1] = b""
    return tuple(ends)
