"""Lines: cut where the pattern of their breaks says, by whichever pattern is faster for the text."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from sfcdc_assets.text_diff.lines import LineBreaks, Lines


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r"]), max_size=8), st.sampled_from(LineBreaks))
def test_the_faster_pattern_finds_the_same_line_ends(pieces: list[bytes], breaks: LineBreaks) -> None:
    text = b"".join(pieces)
    lines = Lines(text, breaks)
    cut = [(lines.content(number), lines.end(number)) for number in range(len(lines))]
    done, expected = 0, []
    for found in breaks.pattern.finditer(text):
        expected.append((text[done : found.start()], found[0]))
        done = found.end()
    assert cut == [*expected, (text[done:], b"")]
    assert b"".join(content + end for content, end in cut) == text
