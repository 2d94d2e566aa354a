"""Edits of large texts as people and programs make them, with the lines that break naive readers of diffs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

_AWKWARD = (
    "",
    "+ added, or so it seems",
    "- removed, or so it seems",
    "++", "--", "-", "+",
    "@@ -1,2 +1,2 @@",
    "@@",
    "--- ",
    "+++ e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "\\ No newline at end of file",
    " a line that begins with a blank",
    "a line that ends with blanks   ",
    "separated\u2028by U+2028\u2029and U+2029",
    "next\u0085line",
    "vertical\x0btab and form\x0cfeed",
    "file\x1cgroup\x1drecord\x1eseparators",
    "\tindented\twith\ttabs",
    "👩‍👩‍👧 🇨🇭 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "e\u0301 is not é to a hash",
    "السلام عليكم, \u202eright to left\u202c",
    "\ufeffa byte order mark, \u00a0no-break space, \u200bzero width",
    '"quoted", with commas; and \\n that is no line end',
    "NULL",
)  # fmt: skip
_WORDS = (
    "the", "customer", "asked", "for", "a", "new", "offer", "by", "Friday", "and", "will", "call", "back", "about",
    "delivery", "to", "Zürich",
)  # fmt: skip
_ENDS = ("\n", "\r\n", "\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")

Lines = list[str]
"""With their ends."""


def long_text(dice: Random, lines: int) -> str:
    """Return a text of so many lines with one style of line ends, or now and then a mixture; some lines are awkward."""
    style = dice.choice((("\n",), ("\n",), ("\r\n",), ("\r\n",), ("\r",), _ENDS))
    return "".join(_line(dice, style) for _ in range(lines)).strip()


def edited(text: str, dice: Random) -> str:
    """Return the text after one to three small edits somewhere in it: lines appended, inserted, deleted, replaced,
    moved or repeated, words changed, or only a line end changed. It may come out as it was."""
    lines = [line for line in _LINE.findall(text) if line]
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        lines = dice.choice(_EDITS)(lines, dice) or lines
    return "".join(lines)


def _line(dice: Random, ends: Sequence[str]) -> str:
    body = dice.choice(_AWKWARD) if dice.random() < 0.2 else " ".join(dice.choices(_WORDS, k=dice.randint(4, 14)))
    return body + dice.choice(ends)


def _new(lines: Lines, dice: Random, most: int = 3) -> Lines:
    """Return new lines, ending mostly as the text's own do."""
    own = [match.group() for line in lines if (match := re.search(r"(?:\r\n|\r|\n)$", line))]
    ends = own if own and dice.random() < 0.8 else _ENDS
    return [_line(dice, ends) for _ in range(dice.randint(1, most))]


def _place(lines: Lines, dice: Random) -> int:
    return dice.randint(0, len(lines))


def _append(lines: Lines, dice: Random) -> Lines:
    new = _new(lines, dice)
    if not lines:
        return new
    closed = lines[-1] if lines[-1].endswith(_ENDS) else lines[-1] + dice.choice(_ENDS)
    return [*lines[:-1], closed, *new]


def _insert(lines: Lines, dice: Random) -> Lines:
    at = _place(lines, dice)
    return [*lines[:at], *_new(lines, dice), *lines[at:]]


def _delete(lines: Lines, dice: Random) -> Lines:
    at = _place(lines, dice)
    return [*lines[:at], *lines[at + dice.randint(1, 3) :]]


def _replace(lines: Lines, dice: Random) -> Lines:
    at = _place(lines, dice)
    return [*lines[:at], *_new(lines, dice), *lines[at + dice.randint(1, 2) :]]


def _change_word(lines: Lines, dice: Random) -> Lines:
    at = min(_place(lines, dice), len(lines) - 1)
    return [*lines[:at], lines[at].replace(" ", f" {dice.choice(_WORDS)} ", 1), *lines[at + 1 :]] if lines else lines


def _move(lines: Lines, dice: Random) -> Lines:
    if len(lines) < 2:
        return lines
    at = dice.randrange(len(lines))
    rest = [*lines[:at], *lines[at + 1 :]]
    to = _place(rest, dice)
    return [*rest[:to], lines[at], *rest[to:]]


def _repeat(lines: Lines, dice: Random) -> Lines:
    at = _place(lines, dice)
    return [*lines[:at], *lines[max(0, at - 2) : at], *lines[at:]]


def _change_end(lines: Lines, dice: Random) -> Lines:
    """One line end of another kind; the differences that Salesforce computes do not see it."""
    at = min(_place(lines, dice), len(lines) - 1)
    if at < 0:
        return lines
    return [*lines[:at], lines[at].rstrip("\r\n") + dice.choice(_ENDS), *lines[at + 1 :]]


_EDITS: tuple[Callable[[Lines, Random], Lines], ...] = (
    _append, _append, _insert, _insert, _delete, _replace, _replace, _change_word, _change_word, _move, _repeat,
    _change_end,
)  # fmt: skip
