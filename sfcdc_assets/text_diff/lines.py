"""A text cut into lines, in UTF-8 bytes, with each line's own end kept.

The end of a line is one of LF, CRLF and CR and nothing else: U+2028, U+0085, vertical tab and form feed are ordinary
characters of a value (`str.splitlines` would break there). All three are ASCII, so cutting bytes is safe in UTF-8.
"""

from __future__ import annotations

import re
from array import array
from enum import Enum
from functools import cached_property
from itertools import chain

LF, CRLF, CR = b"\n", b"\r\n", b"\r"
_LF_ALONE, _CRLF_ALONE = re.compile(LF), re.compile(CRLF)


class LineBreaks(Enum):
    """Where the writer of a diff broke lines; the first is what Salesforce documents (Java's BufferedReader)."""

    UNIVERSAL = (re.compile(rb"\r\n|\n|\r"), (LF, CRLF, CR))
    WITHOUT_CR = (re.compile(rb"\r?\n"), (LF, CRLF))  # a bare CR is a character of the line
    LF_ONLY = (re.compile(rb"\n"), (LF,))  # even the CR of a CRLF is a character of the line

    def __init__(self, pattern: re.Pattern[bytes], ends: tuple[bytes, ...]) -> None:
        self.pattern = pattern
        self.ends = ends

    def pattern_of(self, text: bytes) -> re.Pattern[bytes]:
        """Return what finds the same line ends in this text as `pattern`: for a text that has one kind of them, as most
        have, in a third of the time."""
        if CR not in text:
            return _LF_ALONE
        if self is not LineBreaks.LF_ONLY and text.count(CRLF) == text.count(CR) == text.count(LF):
            return _CRLF_ALONE
        return self.pattern

    @classmethod
    def possible(cls, *texts: bytes) -> list[LineBreaks]:
        """Return the readings that differ for these texts, most likely first."""
        readings = [cls.UNIVERSAL]
        if any(re.search(rb"\r(?!\n)", text) for text in texts):
            readings.append(cls.WITHOUT_CR)
        if any(CR in text for text in texts):
            readings.append(cls.LF_ONLY)
        return readings


class Lines:
    """The lines of a text. The last one has no end and is empty if the text is empty or closes with a line end.

    Costs 16 bytes a line beside the text, which is not copied.
    """

    def __init__(self, text: bytes, breaks: LineBreaks) -> None:
        self.text = text
        self.breaks = breaks
        self._view = memoryview(text)
        # A loop of Python's own over the line ends would be most of what a diff costs.
        ends = array("q", chain.from_iterable(map(re.Match.span, breaks.pattern_of(text).finditer(text))))
        self._starts = array("q", [0, *ends[1::2], len(text)])
        self._stops = array("q", [*ends[::2], len(text)])

    def __len__(self) -> int:
        return len(self._stops)

    def content(self, index: int) -> bytes:
        """Return the line without its end."""
        return self.text[self._starts[index] : self._stops[index]]

    def end(self, index: int) -> bytes:
        """Return the line's own end; empty for the last line."""
        return self.text[self._stops[index] : self._starts[index + 1]]

    def run(self, first: int, stop: int) -> memoryview:
        """Return the lines `first` to `stop` (excluded) as they stand, ends included, not copied."""
        return self._view[self._starts[first] : self._starts[stop]]

    @property
    def closed(self) -> bool:
        """True if a line end closes the text (or it is empty): its last, empty line is then a line to some only."""
        return self._starts[-2] == self._stops[-1]

    @property
    def visible(self) -> int:
        """How many lines a reader counts."""
        return len(self) - self.closed

    @cached_property
    def ends_by_frequency(self) -> tuple[bytes, ...]:
        """Every line end of this reading, the most frequent in the text first."""
        crlf = self.text.count(CRLF)
        counts = {LF: self.text.count(LF) - crlf, CRLF: crlf, CR: self.text.count(CR) - crlf}
        if self.breaks is LineBreaks.LF_ONLY:
            return (LF,)
        return tuple(sorted(self.breaks.ends, key=lambda end: -counts[end]))
