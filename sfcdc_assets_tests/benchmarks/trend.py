"""What each stage cost at earlier commits: the medians that docs/benchmarks.json keeps of every run, and their picture.

Costs are drawn, not rates: each line is one figure as a multiple of the least it ever was, so that up is worse for all
of them, and a step is seen at a look. Only what was measured on a machine of the same cores and memory is drawn.
"""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from sfcdc_assets_tests.benchmarks.results import Result, as_values, from_values
from sfcdc_assets_tests.benchmarks.stage import Figure
from sfcdc_assets_tests.docs.line_plot import Line, Panel, drawn
from sfcdc_assets_tests.documentation import ROOT

PICTURE = ROOT / "docs" / "images" / "benchmarks.svg"
LINES = 3
"""Figures of a stage that are drawn: the first ones with a goal, or the first ones."""
_NAME = 20


@dataclass(frozen=True)
class Measured:
    """One run of a stage. `machine`: its cores and memory; `medians`: by case and unit."""

    commit: str
    date: str
    machine: str
    stage: str
    medians: Mapping[str, float]


@dataclass(frozen=True)
class Kept:
    """What docs/benchmarks.json has: the last result of each stage, and every run, the oldest first."""

    results: Mapping[str, Result]
    runs: Sequence[Measured]

    @classmethod
    def from_json(cls, text: str) -> Kept:
        """Read what `as_json` wrote."""
        values = json.loads(text)
        return cls(from_values(values["stages"]), [Measured(**each) for each in values["runs"]])

    def as_json(self) -> str:
        """Return the text of the file, a run in a line."""
        stages = json.dumps(as_values(self.results), indent=1)
        runs = ",\n".join(json.dumps(asdict(each)) for each in self.runs)
        return f'{{"stages": {stages},\n"runs": [\n{runs}\n]}}\n'

    def with_result(self, stage: str, result: Result, commit: str, order: Sequence[str]) -> Kept:
        """Return it with a further run; a stage that is measured again at one commit and machine counts once. `order`:
        that of the stages."""
        run = measured(stage, result, commit)
        same = (run.commit, run.machine, run.stage)
        runs = [each for each in self.runs if (each.commit, each.machine, each.stage) != same]
        results = {**self.results, stage: result}
        return Kept({each: results[each] for each in order if each in results}, [*runs, run])


def measured(stage: str, result: Result, commit: str) -> Measured:
    """Return what is kept of a stage's result."""
    medians = {label(each): float(f"{median(each.ours):.3g}") for each in result.figures}
    return Measured(commit, result.date, machine_of(result), stage, medians)


def label(figure: Figure) -> str:
    """Return what a figure is called over commits."""
    return f"{figure.case} ({figure.unit})"


def machine_of(result: Result) -> str:
    """Return cores and memory, without the releases of libraries: these are what a trend is to show."""
    return ", ".join(result.machine.split(", ")[:2])


def commit_of(folder: Path) -> str:
    """Return the commit that a folder is at, with `+` where files differ from it; empty outside of a repository."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def picture(kept: Kept) -> str:
    """Return the picture of all stages that were measured more than once, as SVG."""
    commits = list(dict.fromkeys(each.commit for each in kept.runs))
    panels = [
        Panel(f"{result.title}: times the least it was", drawable)
        for stage, result in kept.results.items()
        if (drawable := lines(result, [each for each in kept.runs if each.stage == stage], commits))
    ]
    dates = [each.date for each in kept.runs]
    axis = f"commits at which something was measured, {min(dates)} to {max(dates)}"
    return drawn("What stages cost over commits", axis, panels)


def lines(result: Result, runs: Sequence[Measured], commits: Sequence[str]) -> list[Line]:
    """Return a stage's lines, of those of its runs that were on a machine like the last result's."""
    alike = [each for each in runs if each.machine == machine_of(result)]
    chosen = [each for each in result.figures if each.goal] or list(result.figures)
    found = []
    for figure in chosen[:LINES]:
        points = [(each.commit, each.medians[label(figure)]) for each in alike if each.medians.get(label(figure))]
        if len(points) < 2:
            continue
        costs = [1 / value if figure.more_is_better else value for _, value in points]
        name = textwrap.shorten(figure.case, _NAME, placeholder="…")
        places = (float(commits.index(commit) + 1) for commit, _ in points)
        found.append(Line(name, list(zip(places, (cost / min(costs) for cost in costs), strict=True))))
    return found
