"""When the emulated org sends a diff, when the full value, and what the diff looks like."""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.events import line_matching, text_difference
from sfcdc_assets.emulator.events.line_matching import Replacement, replacements
from sfcdc_assets.emulator.events.text_difference import unified_difference

CALM = "\r\n".join(f"Line {number} of a calm and rather long text." for number in range(40))


def rows(before: str, after: str, convention: text_difference.Convention) -> list[str]:
    return unified_difference(before, after, convention).split("\n")[2:]


def test_the_hash_is_that_of_the_whole_new_value_and_lines_are_joined_by_line_feeds() -> None:
    after = CALM.replace("Line 7", "Zeile 7 ü")
    diff = text_difference.text_difference(CALM, after)
    assert diff == (
        f"--- \n+++ {hashlib.sha256(after.encode()).hexdigest()}\n@@ -8,1 +8,1 @@\n"
        "-Line 7 of a calm and rather long text.\n+Zeile 7 ü of a calm and rather long text."
    )


def test_the_two_conventions_differ_where_a_side_of_a_hunk_is_empty() -> None:
    assert rows("a\nb\nc", "a\nx\ny\nb\nc", "java-diff-utils") == ["@@ -2,0 +2,2 @@", "+x", "+y"]
    assert rows("a\nb\nc", "a\nx\ny\nb\nc", "posix") == ["@@ -1,0 +2,2 @@", "+x", "+y"]
    assert rows("a\nb\nc", "a\nc", "java-diff-utils") == ["@@ -2,1 +2,0 @@", "-b"]
    assert rows("a\nb\nc", "a\nc", "posix") == ["@@ -2 +1,0 @@", "-b"]
    assert rows("", "a", "java-diff-utils") == ["@@ -1,0 +1,1 @@", "+a"]
    assert rows("", "a", "posix") == ["@@ -0,0 +1 @@", "+a"]


def test_an_unknown_convention_is_refused() -> None:
    with pytest.raises(ValueError, match="java-diff-utils, posix"):
        unified_difference("a", "b", "git")  # type: ignore[arg-type]


def lines_of(count: int, length: int = 30) -> list[str]:
    return [f"{number:04}".ljust(length, ".") for number in range(count)]


def sent_as_diff(old: Sequence[str], new: Sequence[str]) -> bool:
    return text_difference.text_difference("\n".join(old), "\n".join(new)) is not None


def test_a_value_of_less_than_a_thousand_characters_is_sent_in_full() -> None:
    long_enough = "a" * 900 + "\n" + "b" * 98 + "\n"
    assert len(long_enough) == 1000
    before = "a" * 900 + "\n" + "b" * 97 + "x"
    assert text_difference.text_difference(before, long_enough) is not None
    assert text_difference.text_difference(before, long_enough.removesuffix("\n")) is None


def test_more_than_half_the_length_changed_is_sent_in_full() -> None:
    calm = lines_of(100)
    half, more = "h" * 2_900, "h" * 3_200
    assert sent_as_diff(calm, [*calm[:50], half, *calm[50:]])
    assert not sent_as_diff(calm, [*calm[:50], more, *calm[50:]])
    assert not sent_as_diff([*calm[:50], more, *calm[50:]], calm)


def test_more_than_a_quarter_of_the_lines_changed_is_sent_in_full() -> None:
    # 100 + 100 lines: 50 replaced are a quarter. Short ones among them, so that the length does not decide.
    old = [f"{number}" if number < 60 else "x" * 40 for number in range(100)]
    assert sent_as_diff(old, [f"{number}!" if number < 50 else line for number, line in enumerate(old)])
    assert not sent_as_diff(old, [f"{number}!" if number < 51 else line for number, line in enumerate(old)])


def test_a_diff_longer_than_the_value_is_sent_in_full() -> None:
    old = ["a" * 505, "b" * 500, "c", "d", "e", "f", "g", "h"]
    assert not sent_as_diff(old, ["a" * 505, "B" * 500, *old[2:]])
    assert sent_as_diff(old, ["a" * 505, "b" * 500, "C", *old[3:]])


def test_a_change_of_line_ends_alone_is_sent_in_full() -> None:
    assert text_difference.text_difference(CALM, CALM.replace("\r\n", "\n")) is None
    assert text_difference.text_difference(CALM, CALM) is None


def applied(old: Sequence[str], new: Sequence[str], changes: Sequence[Replacement]) -> list[str]:
    built: list[str] = []
    place = 0
    for change in changes:
        built += old[place : change.old_start]
        built += new[change.new_start : change.new_stop]
        assert len(built) == change.new_stop
        place = change.old_stop
    return built + list(old[place:])


few_lines = st.lists(st.sampled_from(["a", "b", "c", "", "d"]), max_size=25)


@given(old=few_lines, new=few_lines)
def test_the_differences_of_any_lines_turn_the_old_into_the_new_and_never_touch(old: list[str], new: list[str]) -> None:
    changes = replacements(old, new)
    assert applied(old, new, changes) == new
    for first, second in pairwise(changes):
        assert first.old_stop < second.old_start
        assert first.new_stop < second.new_start
    kept = len(old) - sum(change.old_stop - change.old_start for change in changes)
    if len(set(old)) < len(old):
        assert kept >= 0
    else:
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        assert (kept > 0) == any(block.size for block in blocks)


def test_a_few_edits_among_a_hundred_thousand_repeated_lines_are_found() -> None:
    seed = 3
    rng = random.Random(seed)
    old = [rng.choice(["a", "b", "", "c"]) for _ in range(100_000)]
    new = list(old)
    new[500], new[90_000] = "changed", "changed too"
    new.insert(50_000, "inserted")
    changes = replacements(old, new)
    assert applied(old, new, changes) == new
    assert sum(change.new_stop - change.new_start for change in changes) == 3, f"seed {seed}"
    assert sum(change.old_stop - change.old_start for change in changes) == 2, f"seed {seed}"


def test_texts_without_anything_in_common_are_replaced_whole_without_long_thought() -> None:
    old, new = ["a", "b"] * 50_000, ["c", "d"] * 50_000
    assert replacements(old, new) == [Replacement(0, 100_000, 0, 100_000)]


def test_the_producer_knows_nothing_of_the_package_that_reads_diffs() -> None:
    for module in (text_difference, line_matching):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in imported if name and "text_diff." in f"{name}."]
