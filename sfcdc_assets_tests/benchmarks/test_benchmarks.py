"""The harness: contestants in turn, ratios of what ran side by side, a page that is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.benchmarks import __main__ as runner
from sfcdc_assets_tests.benchmarks import stages
from sfcdc_assets_tests.benchmarks.interleave import interleaved
from sfcdc_assets_tests.benchmarks.page import spread, with_figures
from sfcdc_assets_tests.benchmarks.results import Result, as_json, from_json, read
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer, ratio

FIGURE = Figure("60 fields", "s", [2.0, 4.0, 3.0], {"MERGE": [1.0, 4.0, 1.0]}, Goal(1.5, of="MERGE"))
RESULT = Result("Apply", "All rows.", "Disk.", 3.0, "2026-11-22", "2 cores", [FIGURE])


def test_contestants_take_turns_and_the_first_of_a_round_changes() -> None:
    calls: list[str] = []

    def trial(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    measured = interleaved({"a": lambda: trial("a"), "b": lambda: trial("b")}, rounds=3)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert measured == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_a_ratio_compares_what_ran_in_the_same_round() -> None:
    assert FIGURE.value == ratio([2, 4, 3], [1, 4, 1]) == 2
    assert FIGURE.goal is not None
    assert not FIGURE.goal.is_reached(2)


def test_results_survive_being_kept() -> None:
    assert from_json(as_json({"apply": RESULT})) == {"apply": RESULT}


def test_the_page_says_what_was_not_reached() -> None:
    page = with_figures(
        "before\n<!-- figures: written by `make bench` from benchmarks.json -->\n<!-- end of figures -->\nafter",
        {"apply": RESULT},
    )
    assert "| 60 fields | 3 s (2 to 4) | MERGE: 1 s (1 to 4) | 2.00 | at most 1.5 × MERGE | no: 2 |" in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter")


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/benchmarks\.md lacks"):
        with_figures("nothing", {})


def test_large_numbers_are_readable() -> None:
    assert spread([123456.0], "events/s") == "123,000 events/s"


def test_a_stage_with_a_wrong_result_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def measure(quick: bool) -> list[Figure]:
        raise WrongAnswer("row 3 differs")

    monkeypatch.setattr(runner, "STAGES", ("apply",))
    monkeypatch.setattr(runner, "stage_named", lambda name: Stage("Apply", measure, "", ""))
    with pytest.raises(WrongAnswer):
        runner.main(["apply", "--in-process"])


def test_a_stage_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        runner.main(["nonsense"])
    assert "no stage nonsense" in capsys.readouterr().err


def test_a_process_that_fails_is_a_failed_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STAGES", ("missing",))
    assert runner.main(["missing"]) == 1  # the child knows no such stage


def test_the_page_is_drawn_from_the_kept_figures() -> None:
    page = runner.PAGE.read_text(encoding="utf-8")
    assert with_figures(page, read(runner.KEPT)) == page


@pytest.mark.parametrize("name", stages.STAGES)
def test_every_stage_says_what_it_compares_and_what_limits_it(name: str) -> None:
    stage = stages.stage_named(name)
    assert stage.title
    assert stage.compared.endswith(".")
    assert stage.limit.endswith(".")


def test_every_stage_is_listed() -> None:
    modules = {path.stem for path in Path(stages.__file__).parent.glob("*.py") if "\nSTAGE = " in path.read_text()}
    assert modules == set(stages.STAGES)
