"""Sizes beyond any Salesforce field, within generous bounds of CPU time; hopeless cases end within them too."""

from __future__ import annotations

import random
import time

import pytest

from sfcdc_assets.emulator.events.text_difference import text_difference
from sfcdc_assets.text_diff import TextDiffError, reconstruct_text
from sfcdc_assets.text_diff.search import Budget

CPU_SECONDS = 20.0  # some 0.1 to 3 s are used on a laptop's core


def hundred_thousand_lines(style: str) -> tuple[str, str]:
    rng = random.Random(5)
    ends = [rng.choice(["\n", "\r\n", "\r"]) if style == "mixed" else "\r\n" for _ in range(100_000)]
    old = [f"line {number} " + "x" * 80 for number in range(100_000)]
    new = [f"{line} edited" if number % 7 == 0 else line for number, line in enumerate(old)]
    return "".join(map(str.__add__, old, ends)), "".join(map(str.__add__, new, ends))


@pytest.mark.parametrize("style", ["one", "mixed"])
def test_a_value_of_a_hundred_thousand_lines_is_compared_and_rebuilt_in_seconds(style: str) -> None:
    before, after = hundred_thousand_lines(style)
    started = time.process_time()
    diff = text_difference(before, after)
    assert diff is not None
    assert reconstruct_text(before, diff) == after
    assert time.process_time() - started < CPU_SECONDS


def test_a_text_of_ten_megabytes_is_rebuilt_in_seconds_and_refused_in_seconds() -> None:
    before = "\r\n".join(f"{number:06} " + "y" * 990 for number in range(10_000))
    after = before.replace("004999 ", "inserted\r\n004999 ").replace("009000 ", "changed ")
    assert len(before) > 10_000_000 - 100_000
    diff = text_difference(before, after)
    assert diff is not None
    started = time.process_time()
    assert reconstruct_text(before, diff) == after
    with pytest.raises(TextDiffError, match="found"):
        reconstruct_text(before.replace("000001 ", "another "), diff)
    assert time.process_time() - started < CPU_SECONDS


def test_a_hopeless_search_over_many_open_line_ends_ends_by_its_budget() -> None:
    base = "".join(f"{number}{end}" for number, end in zip(range(3_000), ["\n", "\r\n", "\r"] * 1_000, strict=True))
    added = "\n".join(f"+new {number}" for number in range(5_000))
    started = time.process_time()
    with pytest.raises(TextDiffError, match="found"):
        reconstruct_text(base, f"--- \n+++ {'0' * 64}\n@@ -1000,0 +1000,5000 @@\n{added}")
    assert time.process_time() - started < CPU_SECONDS


def test_a_budget_is_spent_by_guesses_or_by_bytes() -> None:
    by_guesses, by_bytes = Budget(2, 1_000), Budget(1_000, 100)
    for _ in range(2):
        assert not by_guesses.spent
        by_guesses.spend(1)
    by_bytes.spend(100)
    assert by_guesses.spent
    assert by_bytes.spent
