"""Runs stages, each in a process of its own, and prints their figures; see the package's docstring."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sfcdc_assets_tests.benchmarks import paired, trend
from sfcdc_assets_tests.benchmarks.page import HEAD, figure_rows, with_figures
from sfcdc_assets_tests.benchmarks.results import Result, as_json, from_json, machine
from sfcdc_assets_tests.benchmarks.stages import QUICK, STAGES, stage_named
from sfcdc_assets_tests.documentation import ROOT

KEPT = ROOT / "docs" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"
LONGEST_SECONDS = 3600
"""No stage takes longer, but for those below; one that does is ended and counts as failed."""
LONGEST_SECONDS_OF = {"footprint": 4 * 3600, "large_copy": 3 * 3600, "catch_up": 2 * 3600}
"""Of those that look at something for hours, or make millions of rows or events for several contestants."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if every stage ended with the right results, and no figure misses what it must reach; otherwise
    1."""
    parser = argparse.ArgumentParser(prog="python -m sfcdc_assets_tests.benchmarks", description=__doc__)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"all, or some of: {', '.join(STAGES)}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes: shows that results are right, and that nothing became twice as slow as it must be",
    )
    parser.add_argument("--write", action="store_true", help="put the figures into docs/benchmarks.json and .md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of this run here, too")
    parser.add_argument(
        "--since",
        metavar="COMMIT",
        help=f"measure at this commit and now, in turn, at small sizes ({', '.join(paired.STAGES)} if no stage is "
        "named), and fail if one became slower; `figures` stands for where the kept figures were last written",
    )
    parser.add_argument("--in-process", action="store_true", help="no process for each stage: for a profiler")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.stages if name not in STAGES]:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if asked.quick and asked.write:
        parser.error("--quick says nothing about speed: its figures are not written")
    console = Console()
    if asked.since:
        return _compared(console, asked.since, asked.stages or paired.STAGES)
    found: dict[str, Result] = {}
    failed: list[str] = []
    slow: list[str] = []
    for name in asked.stages or (QUICK if asked.quick else STAGES):
        console.print(f"[bold]{name}[/bold] ...", highlight=False)
        result = measured(name, asked.quick) if asked.in_process else _in_its_own_process(name, asked.quick)
        if result is None:
            failed.append(name)
            continue
        found[name] = result
        console.print(_table(result))
        slow += [f"{name}: {figure.case}" for figure in result.figures if figure.fails]
        if asked.write:  # after each stage: what was measured stays, whatever happens to the next
            kept = trend.Kept.from_json(KEPT.read_text(encoding="utf-8"))
            kept = kept.with_result(name, result, trend.commit_of(ROOT), STAGES)
            KEPT.write_text(kept.as_json(), encoding="utf-8")
            PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), kept.results), encoding="utf-8")
            trend.PICTURE.write_text(trend.picture(kept), encoding="utf-8")
    if asked.json:
        asked.json.write_text(as_json(found), encoding="utf-8")
    if failed:
        console.print(f"[red]failed or wrong: {', '.join(failed)}[/red]")
    if slow:
        console.print(f"[red]too slow for this machine: {', '.join(slow)}[/red]")
    return 1 if failed or slow else 0


def _compared(console: Console, since: str, stages: Sequence[str]) -> int:
    commit = paired.earlier_commit() if since == "figures" else since
    if commit is None:
        console.print("Nothing to compare with: this clone does not have the commit at which figures were written.")
        return 0
    found: list[paired.Slower] = []
    failed: list[str] = []
    with paired.files_of(commit) as files:
        then, now = paired.measured_in(files), paired.measured_in(ROOT)
        for stage in stages:
            console.print(f"[bold]{stage}[/bold], at {commit[:8]} and now ...", highlight=False)
            slower = paired.slower(stage, then, now)
            if slower is None and not paired.has_stage(files, stage):
                console.print(f"{stage} was not there.", highlight=False)
            elif slower is None:
                failed.append(stage)
            found += slower or []
    for stage in failed:
        console.print(f"[red]{stage} could not be compared: it failed, or its figures have other names now[/red]")
    for each in found:
        console.print(f"[red]{each}[/red]", highlight=False)
    if not found:
        console.print(f"No figure became {paired.TIMES:g} times what it was.", highlight=False)
    return 1 if found or failed else 0


def measured(name: str, quick: bool) -> Result:
    """The stage's result, measured in this process."""
    stage = stage_named(name)
    begun = time.perf_counter()
    figures = stage.measure(quick)
    seconds = time.perf_counter() - begun
    date = datetime.now(UTC).date().isoformat()
    return Result(stage.title, stage.compared, stage.limit, seconds, date, machine(), figures)


def _in_its_own_process(name: str, quick: bool) -> Result | None:
    longest = LONGEST_SECONDS_OF.get(name, LONGEST_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", __spec__.name, name, "--in-process", "--json", str(path)]
        try:
            subprocess.run(
                [*command, *(["--quick"] if quick else [])],
                stdout=subprocess.DEVNULL,
                timeout=longest,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{name} did not end within {longest} s", file=sys.stderr)
            return None
        # Figures that are there are right, also where the process says by its exit code that one of them is too slow.
        return from_json(path.read_text(encoding="utf-8"))[name] if path.exists() else None


def _table(result: Result) -> Table:
    table = Table(*HEAD, title=f"{result.title} ({result.seconds:.0f} s)", title_justify="left")
    for figure in result.figures:
        for row in figure_rows(figure):
            table.add_row(*row)
    return table


if __name__ == "__main__":
    sys.exit(main())
