"""The harness: contestants in turn, ratios of what ran side by side, a page that is what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sfcdc_assets_tests.benchmarks import __main__ as runner
from sfcdc_assets_tests.benchmarks import demo, stages
from sfcdc_assets_tests.benchmarks.interleave import interleaved
from sfcdc_assets_tests.benchmarks.page import spread, with_figures
from sfcdc_assets_tests.benchmarks.results import Result, as_json, from_json, read
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer, ratio
from sfcdc_assets_tests.documentation import ROOT

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
    assert "| 60 fields | 3 s | MERGE: 1 (2.00) | at most 1.5 ×: no, 2 |" in page
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


@pytest.mark.parametrize(("seconds", "code"), [(5.9, 0), (6.1, 1)])
def test_a_figure_that_misses_what_it_must_reach_fails_the_run(
    seconds: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = Goal(2.0, of="loop", must=True)
    figures = [Figure("demo", "s", [seconds], {"loop": [3.0]}, bound), Figure("wish", "s", [9.0], goal=Goal(1))]
    monkeypatch.setattr(runner, "STAGES", ("demo",))
    monkeypatch.setattr(runner, "stage_named", lambda name: Stage("Demo", lambda quick: figures, "", ""))
    assert runner.main(["demo", "--in-process"]) == code
    assert ("too slow for this machine: demo: demo" in capsys.readouterr().out) == bool(code)


def test_the_parts_of_the_demo_are_told_apart_by_what_it_says() -> None:
    said = [
        (0.5, "Installing\n"),
        (1.0, "Step 1 of 6: an org is made\n"),
        (4.0, "The org is at https://localhost:1.\n"),
        (4.1, "Step 2 of 6: day 0: every record is copied\n"),
        (9.0, "First table: Account, 5 s after the org was up.\n"),
        (12.1, "Step 3 of 6: round 1 of 2: the tables follow 9 transactions\n"),
        (20.0, "Step 4 of 6: round 2 of 2: the tables follow 12 transactions\n"),
        (29.1, "Step 5 of 6: 35 polled objects are asked, and compared where no stamp tells\n"),
        (32.1, "Step 6 of 6: every table is compared with the org, field by field\n"),
        (40.1, ""),
    ]
    assert list(demo.parts_of(said).values()) == pytest.approx([1.0, 3.0, 5.0, 8.0, 17.0, 3.0, 8.0])
    with pytest.raises(WrongAnswer, match="never said 'First table: '"):
        demo.parts_of([each for each in said if "First" not in each[1]])


def test_the_reference_loop_does_its_work_without_anything_of_the_project() -> None:
    script = "import sys; from sfcdc_assets_tests.benchmarks.reference_loop import work; work()"
    script += "; print([name for name in sys.modules if name.startswith('sfcdc_assets.')])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_quick_benchmarks_which_ci_runs_time_the_demo() -> None:
    assert "demo" in stages.QUICK


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
