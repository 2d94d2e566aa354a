"""The harness: contestants in turn, ratios of what ran side by side, a page that is what was measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS
from sfcdc_assets_tests.benchmarks import __main__ as runner
from sfcdc_assets_tests.benchmarks import demo, footprint, fresh, large_copy, paired, stages, trend
from sfcdc_assets_tests.benchmarks.interleave import interleaved
from sfcdc_assets_tests.benchmarks.page import spread, with_figures
from sfcdc_assets_tests.benchmarks.results import Result, as_json, from_json
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer, ratio
from sfcdc_assets_tests.benchmarks.trend import Kept
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
    assert "| 60 fields | 3 s | MERGE: 1 (2.00) | ≤ 1.5 ×: no, 2 |" in page
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


@pytest.mark.parametrize(
    ("runs", "does"),
    [
        ([(0, 250), (255, None)], True),
        ([(0, 250)], False),
        ([(0, 50), (60, None)], False),
        ([(0, None)], False),
        ([(0, 250), (401, None)], False),
        ([(0, 250), (260, 390)], True),
        ([(0, 250), (245, None)], True),
        ([(0, 250), (245, 249)], False),
    ],
)
def test_one_run_hands_over_to_another_where_both_are_at_work_in_the_window(
    runs: list[tuple[float, float | None]], does: bool
) -> None:
    assert fresh.hands_over(runs, begun=100, ended=400) == does


def test_the_window_of_freshness_is_longer_than_a_run_goes_on() -> None:
    assert fresh.WINDOW_SECONDS > FOLLOW_SECONDS


def test_a_copy_that_was_killed_asks_for_one_page_again_at_most() -> None:
    assert [large_copy.read_again(read, 10) for read in (10, 11)] == [0, 1]
    for read in (9, 12):
        with pytest.raises(WrongAnswer, match=f"{read} pages of 10"):
            large_copy.read_again(read, 10)


def test_the_reference_loop_does_its_work_without_anything_of_the_project() -> None:
    script = "import sys; from sfcdc_assets_tests.benchmarks.reference_loop import work; work()"
    script += "; print([name for name in sys.modules if name.startswith('sfcdc_assets.')])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_quick_benchmarks_which_ci_runs_time_the_demo() -> None:
    assert "demo" in stages.QUICK


def test_a_demo_that_takes_more_than_twice_its_reference_loops_fails_the_run() -> None:
    loop_seconds = 4.0
    assert not demo.of_the_demo(demo.LOOPS * loop_seconds, loop_seconds).fails
    assert demo.of_the_demo(2.1 * demo.LOOPS * loop_seconds, loop_seconds).fails


def test_a_stage_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        runner.main(["nonsense"])
    assert "no stage nonsense" in capsys.readouterr().err


def test_a_process_that_fails_is_a_failed_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STAGES", ("missing",))
    assert runner.main(["missing"]) == 1  # the child knows no such stage


def test_the_page_is_drawn_from_the_kept_figures() -> None:
    page, kept = runner.PAGE.read_text(encoding="utf-8"), Kept.from_json(runner.KEPT.read_text(encoding="utf-8"))
    assert with_figures(page, kept.results) == page
    assert trend.picture(kept) == trend.PICTURE.read_text(encoding="utf-8")


def test_the_last_run_of_each_stage_is_what_the_page_shows() -> None:
    kept = Kept.from_json(runner.KEPT.read_text(encoding="utf-8"))
    last = {each.stage: each.medians for each in kept.runs}
    assert last == {stage: trend.measured(stage, result, "").medians for stage, result in kept.results.items()}


def test_a_run_is_kept_beside_earlier_ones_and_counts_once_for_a_commit() -> None:
    kept = Kept({}, []).with_result("apply", RESULT, "abc", ["apply"])
    kept = kept.with_result("apply", replace(RESULT, figures=[Figure("60 fields", "s", [9.0])]), "def", ["apply"])
    again = Kept.from_json(kept.as_json()).with_result("apply", RESULT, "def", ["apply"])
    assert [(each.commit, each.medians) for each in again.runs] == [
        ("abc", {"60 fields (s)": 3.0}),
        ("def", {"60 fields (s)": 3.0}),
    ]
    assert again.results == {"apply": RESULT}


def test_the_picture_shows_costs_so_that_up_is_worse_also_for_a_rate() -> None:
    kept = Kept({}, [])
    for commit, rate in (("a", 100.0), ("b", 50.0)):
        figure = Figure("decoded", "events/s", [rate], goal=Goal(90, at_least=True))
        kept = kept.with_result("decode", replace(RESULT, figures=[figure]), commit, ["decode"])
    ((_, best), (_, later)) = trend.lines(kept.results["decode"], kept.runs, ["a", "b"])[0].points
    assert (best, later) == (1.0, 2.0)


def test_runs_on_another_machine_are_not_drawn_beside_these() -> None:
    kept = Kept({}, [])
    for commit, machine in (("a", "64 cores, 1 GiB, x"), ("b", "2 cores, 1 GiB, x"), ("c", "2 cores, 1 GiB, y")):
        kept = kept.with_result("apply", replace(RESULT, machine=machine), commit, ["apply"])
    (line,) = trend.lines(kept.results["apply"], kept.runs, ["a", "b", "c"])
    assert [x for x, _ in line.points] == [2.0, 3.0]


class Stages:
    """Measures that were found at each call, in turn."""

    def __init__(self, unit: str, *values: float) -> None:
        self._unit, self._values, self.calls = unit, list(values), 0

    def __call__(self, stage: str) -> Result:
        self.calls += 1
        return replace(RESULT, figures=[Figure("a batch", self._unit, [self._values[(self.calls - 1) % 6]])])


@pytest.mark.parametrize(
    ("unit", "now", "calls", "slower"),
    [
        ("s", (1.4, 1.5, 1.35, 1.4, 1.4, 1.31), 6, True),
        ("s", (1.4, 1.5, 1.2, 9, 9, 9), 3, False),
        ("s", (1.4, 1.5, 1.4, 1.4, 1.0, 1.4), 6, False),
        ("events/s", (0.7, 0.6, 0.7, 0.7, 0.5, 0.7), 6, True),
        ("events/s", (2.0, 2.0, 2.0, 2.0, 2.0, 2.0), 3, False),
    ],
)
def test_a_stage_is_slower_only_if_every_pair_says_so_and_as_many_again(
    unit: str, now: tuple[float, ...], calls: int, slower: bool
) -> None:
    then, measured = Stages(unit, *[1.0] * 6), Stages(unit, *now)
    found = paired.slower("apply", then, measured)
    assert found is not None
    assert (then.calls, measured.calls, [each.figure for each in found]) == (
        calls,
        calls,
        [f"a batch ({unit})"] if slower else [],
    )


def test_a_stage_that_cannot_be_measured_on_both_sides_says_nothing() -> None:
    assert paired.slower("apply", Stages("s", *[1.0] * 6), lambda _: None) is None


def test_a_stage_whose_figures_have_other_names_now_was_not_compared() -> None:
    def renamed(_stage: str) -> Result:
        return replace(RESULT, figures=[Figure("a new name", "s", [1.0])])

    assert paired.slower("apply", Stages("s", *[1.0] * 6), renamed) is None


@pytest.mark.parametrize(
    ("found", "is_there", "code", "said"),
    [
        ([], True, 0, "No figure became 1.3 times what it was."),
        ([paired.Slower("apply", "a batch (s)", [1.4, 1.5, 1.6])], True, 1, "apply: a batch (s): 1.50 times"),
        (None, True, 1, "apply could not be compared"),
        (None, False, 0, "apply was not there"),
    ],
)
def test_a_comparison_fails_where_a_figure_became_slower_or_none_could_be_compared(
    found: list[paired.Slower] | None,
    is_there: bool,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = tmp_path / "sfcdc_assets_tests" / "benchmarks" / "apply.py"
    if is_there:
        module.parent.mkdir(parents=True)
        module.touch()

    @contextmanager
    def files_of(commit: str) -> Iterator[Path]:
        assert commit == "abc"
        yield tmp_path

    monkeypatch.setattr(runner, "STAGES", ("apply",))
    monkeypatch.setattr(paired, "files_of", files_of)
    monkeypatch.setattr(paired, "slower", lambda stage, then, now: found)
    assert runner.main(["apply", "--since", "abc"]) == code
    assert said in capsys.readouterr().out


def test_files_of_an_earlier_commit_are_what_it_has_and_are_gone_afterwards(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    assert (paired.earlier_commit(tmp_path), trend.commit_of(tmp_path / "none")) == (None, "")
    figures = tmp_path / "docs" / "benchmarks.json"
    figures.parent.mkdir()
    for text in ("1", "2"):
        figures.write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--message", text)
    first = git("rev-parse", "HEAD~1")
    assert paired.earlier_commit(tmp_path) == first
    with paired.files_of(first, tmp_path) as files:
        assert (files / "docs" / "benchmarks.json").read_text() == "1"
    assert not files.exists()
    figures.write_text("3")
    assert trend.commit_of(tmp_path).endswith("+")


@pytest.mark.parametrize("name", stages.STAGES)
def test_every_stage_says_what_it_compares_and_what_limits_it(name: str) -> None:
    stage = stages.stage_named(name)
    assert stage.title
    assert stage.compared.endswith(".")
    assert stage.limit.endswith(".")


def test_the_small_form_that_is_measured_is_the_one_that_the_docs_show() -> None:
    shown = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    assert "\n".join(f"{name}={value}" for name, value in footprint.SMALL.items()) in shown


def test_memory_that_grows_by_a_fifth_is_not_flat() -> None:
    levels = [500.0] * 10 + [530.0] * 10
    assert [
        each.goal.is_reached(each.value)
        for end in (540.0, 600.0)
        if (each := footprint.flat("idle", [*levels, *[end] * 10])).goal and each.value
    ] == [True, False]


def test_the_footprint_may_take_as_long_as_it_looks() -> None:
    assert runner.LONGEST_SECONDS_OF["footprint"] > 2 * footprint.HOUR_SECONDS + 2 * footprint.READY_SECONDS
    assert set(runner.LONGEST_SECONDS_OF) <= set(stages.STAGES)


def test_every_stage_is_listed() -> None:
    modules = {path.stem for path in Path(stages.__file__).parent.glob("*.py") if "\nSTAGE = " in path.read_text()}
    assert modules == set(stages.STAGES)
