"""Whether a stage became slower since an earlier commit: both are measured in turn within one run, at small sizes.

The earlier commit's files are unpacked into a folder, with its own stages and its own sizes, and run by the same
Python. What one pair says is chance on a machine that does other things as well, so a figure counts as slower only
where every pair says so, and as many pairs once more.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sfcdc_assets_tests.benchmarks.results import Result, from_json
from sfcdc_assets_tests.benchmarks.trend import label
from sfcdc_assets_tests.documentation import ROOT

TIMES = 1.3
"""A figure that is more than so many times the earlier one is slower."""
PAIRS = 3
STAGES = ("decode", "idle_tick", "apply_recent")
"""What CI compares: landing's arithmetic, what runs all day, and a batch; half a minute a pair."""
_FIGURES_AT = "docs/benchmarks.json"
_LONGEST_SECONDS = 600

Measure = Callable[[str], Result | None]
"""Runs a stage and returns its result; None where it failed."""


@dataclass(frozen=True)
class Slower:
    """A figure that became slower. `times`: the cost now by the cost then, a number for each pair."""

    stage: str
    figure: str
    times: Sequence[float]

    def __str__(self) -> str:
        return f"{self.stage}: {self.figure}: {median(self.times):.2f} times what it was ({len(self.times)} pairs)"


def earlier_commit(folder: Path = ROOT) -> str | None:
    """Return the commit before this one that last changed the kept figures; None where a clone does not have it."""
    command = ["git", "-C", str(folder), "log", "-1", "--format=%H", "HEAD~1", "--", _FIGURES_AT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


@contextmanager
def files_of(commit: str, folder: Path = ROOT) -> Iterator[Path]:
    """Unpack a commit's files into a folder that is gone at the end."""
    packed = subprocess.run(["git", "-C", str(folder), "archive", commit], capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as name, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(name, filter="data")
        yield Path(name)


def has_stage(folder: Path, stage: str) -> bool:
    """Whether the files in a folder have this stage."""
    return (folder / "sfcdc_assets_tests" / "benchmarks" / f"{stage}.py").exists()


def measured_in(folder: Path) -> Measure:
    """Return what runs the stages of the files in a folder, at their small sizes, in a process of its own."""

    def measure(stage: str) -> Result | None:
        with tempfile.TemporaryDirectory() as name:
            written = Path(name) / "result.json"
            command = [sys.executable, "-m", "sfcdc_assets_tests.benchmarks", stage, "--quick", "--in-process"]
            subprocess.run(
                [*command, "--json", str(written)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder)},
                stdout=subprocess.DEVNULL,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
            return from_json(written.read_text(encoding="utf-8"))[stage] if written.exists() else None

    return measure


def slower(stage: str, then: Measure, now: Measure) -> list[Slower] | None:
    """Return the stage's figures that became slower; None where it could not be measured on both sides, or none of its
    figures has the name that it had."""
    pairs: list[Mapping[str, float]] = []
    for _ in range(2):
        for number in range(PAIRS):
            first, second = (then, now) if number % 2 == 0 else (now, then)
            results = {first: first(stage), second: second(stage)}
            before, after = results[then], results[now]
            if before is None or after is None:
                return None
            pairs.append(_times(before, after))
        if not (figures := _in_all(pairs)):
            return None
        found = [Slower(stage, figure, [pair[figure] for pair in pairs]) for figure in figures]
        found = [each for each in found if min(each.times) > TIMES]
        if not found:
            break
    return found


def _times(before: Result, after: Result) -> Mapping[str, float]:
    """Cost after by cost before, by figure that both have."""
    then = {label(each): median(each.ours) for each in before.figures}
    found = {}
    for each in after.figures:
        was, is_now = then.get(label(each)), median(each.ours)
        if was and is_now:
            found[label(each)] = was / is_now if each.more_is_better else is_now / was
    return found


def _in_all(pairs: Sequence[Mapping[str, float]]) -> Sequence[str]:
    return [figure for figure in pairs[0] if all(figure in pair for pair in pairs)]
