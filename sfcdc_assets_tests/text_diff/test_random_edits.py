"""Random texts and edits through two producers of diffs, and damage to both inputs."""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.events.text_difference import Convention, unified_difference
from sfcdc_assets.text_diff import TextDiffError, reconstruct_text

CONVENTIONS: tuple[Convention, ...] = ("java-diff-utils", "posix")
LINE_ENDS = ("\n", "\r\n", "\r")
AWKWARD = [
    "",
    "",
    "+",
    "-",
    " ",
    "@@",
    "--- ",
    "+++ x",
    "@@ -1,1 +1,1 @@",
    "\\ No newline at end of file",
    "- a",
    "+ b",
]
AWKWARD += ["a\u2028b", "\u0085", "x\vy", "\f", "é😀", "\x1c", "\u2029\u2029"]


@dataclass(frozen=True)
class Edit:
    style: str
    before: str
    after: str


def random_line(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(AWKWARD)
    return f"word{rng.randrange(30)} " * rng.randrange(1, 5)


def random_edit(rng: random.Random) -> Edit:
    """Up to 40 lines of one style of line ends or of all mixed, up to four edits; a new line has any of its ends."""
    style = rng.choice([*LINE_ENDS, "mixed"])
    ends = LINE_ENDS if style == "mixed" else (style,)
    old = [(random_line(rng), rng.choice(ends)) for _ in range(rng.randrange(40))]
    new = list(old)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(new) + 1)
        match rng.choice(["insert", "remove", "replace"]):
            case "insert":
                new[place:place] = [(random_line(rng), rng.choice(ends)) for _ in range(rng.randrange(1, 3))]
            case "remove":
                del new[place : place + 1]
            case _:
                new[place : place + 1] = [(random_line(rng), end) for _, end in new[place : place + 1]]
    closed = rng.random() < 0.3
    return Edit(style, text_of(old, closed), text_of(new, closed if rng.random() < 0.9 else not closed))


def text_of(lines: list[tuple[str, str]], closed: bool) -> str:
    text = "".join(line + end for line, end in lines)
    return text if closed or not lines else text.removesuffix(lines[-1][1])


def test_many_random_edits_in_both_conventions_are_all_proven(capsys: pytest.CaptureFixture[str]) -> None:
    seed, count = 20_240_426, 500
    rng = random.Random(seed)
    proven = {(convention, style): 0 for convention in CONVENTIONS for style in [*LINE_ENDS, "mixed"]}
    for _ in range(count):
        edit = random_edit(rng)
        for convention in CONVENTIONS:
            diff = unified_difference(edit.before, edit.after, convention)
            assert reconstruct_text(edit.before, diff) == edit.after
            proven[convention, edit.style] += 1
    with capsys.disabled():
        print(f"\nseed {seed}: {sum(proven.values())} of {2 * count} diffs of {count} random edits proven: {proven}")
    assert sum(proven.values()) == 2 * count
    assert min(proven.values()) > count / 8


def split_keeping_ends(text: str) -> list[str]:
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)


@pytest.mark.parametrize("context", [0, 1, 3])
def test_diffs_of_another_producer_with_and_without_context_are_proven(context: int) -> None:
    seed = 7
    rng = random.Random(seed)
    for _ in range(300):
        edit = random_edit(rng)
        sha256 = hashlib.sha256(edit.after.encode()).hexdigest()
        # difflib numbers hunks as POSIX diff does. Its lines are compared with their ends here, so none changes unseen.
        rows = list(
            difflib.unified_diff(
                [repr(line) for line in split_keeping_ends(edit.before)],
                [repr(line) for line in split_keeping_ends(edit.after)],
                n=context,
                lineterm="",
            )
        )[2:]
        lines = [f"{row[0]}{ast.literal_eval(row[1:])}".rstrip("\r\n") if row[0] != "@" else row for row in rows]
        assert reconstruct_text(edit.before, "\n".join(["--- ", f"+++ {sha256}", *lines])) == edit.after, f"seed {seed}"


texts = st.lists(
    st.tuples(st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(exclude_characters="\r\n", codec="utf-8")))),
    max_size=12,
).map(lambda lines: [line for (line,) in lines])


@given(
    old=texts, new=texts, end=st.sampled_from(LINE_ENDS), convention=st.sampled_from(CONVENTIONS), closed=st.booleans()
)
def test_any_text_leads_to_any_other_of_the_same_line_ends(
    old: list[str], new: list[str], end: str, convention: Convention, closed: bool
) -> None:
    before, after = end.join(old) + end * closed, end.join(new) + end * closed
    assert reconstruct_text(before, unified_difference(before, after, convention)) == after


@given(base=st.text(), diff=st.text())
def test_any_two_texts_give_a_proven_value_or_an_error(base: str, diff: str) -> None:
    with pytest.raises(TextDiffError):
        reconstruct_text(base, diff)


@given(
    base=st.text("a\r\n", max_size=8), body=st.text("a+- @,0123\r\n\\", max_size=30), new=st.text("a\n\r", max_size=8)
)
def test_a_diff_of_nonsense_behind_a_real_hash_never_gives_another_text(base: str, body: str, new: str) -> None:
    try:
        found = reconstruct_text(base, f"--- \n+++ {hashlib.sha256(new.encode()).hexdigest()}\n@@ -{body}")
    except TextDiffError:
        return
    assert found == new


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_flipping_any_character_of_base_or_diff_never_yields_a_wrong_text(convention: Convention) -> None:
    base = "first\r\n\r\n+ second\r\nthird\nfour"
    after = "first\r\nnew\r\n\r\n+ second\r\nTHIRD\nfour\r\nfive"
    diff = unified_difference(base, after, convention)
    outcomes = {"proven": 0, "refused": 0}
    for damaged_base, damaged_diff in [
        *((flipped, diff) for flipped in flips(base)),
        *((base, flipped) for flipped in flips(diff)),
    ]:
        try:
            assert reconstruct_text(damaged_base, damaged_diff) == after
            outcomes["proven"] += 1
        except TextDiffError:
            outcomes["refused"] += 1
    assert outcomes["proven"] > 0
    assert outcomes["refused"] > len(base)


def flips(text: str) -> list[str]:
    return [
        text[:place] + other + text[place + 1 :]
        for place in range(len(text))
        for other in ("x", "\n", "", "1")
        if text[place] != other
    ]
