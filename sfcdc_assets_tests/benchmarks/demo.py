"""The demo: from nothing to tables that are proven equal to the org, by the clock, with its parts."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

from sfcdc_assets_tests.benchmarks import reference_loop
from sfcdc_assets_tests.benchmarks.org_process import clean_environment
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.documentation import ROOT

LOOPS = 11.0
"""How many times the reference loop's the demo's seconds are, where nothing else runs."""
PARTS = {
    "all is installed": ("", "Step 1 "),
    "the org is up": ("Step 1 ", "The org is at "),
    "the first table": ("The org is at ", "First table: "),
    "every record is copied": ("Step 2 ", "Step 3 "),
    "changes are followed": ("Step 3 ", "polled objects are asked"),
    "what no stamp tells of is found": ("polled objects are asked", "every table is compared"),
    "every table is compared": ("every table is compared", ""),
}
"""Each with the words of the lines that it begins and ends with; none are the command's own start and end."""
INSTALLED, FIRST_TABLE = "all is installed", "the first table"


def measure(_quick: bool) -> Sequence[Figure]:
    """Seconds of `make demo` in a fresh clone. What must hold is about the demo alone: how long packages take to come
    is not in our hands. The reference loop is run before and after it: how busy the machine is changes."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(ROOT, name, ignore=_not_of_a_clone, dirs_exist_ok=True)
        before = reference_loop.seconds()
        lines = list(_lines(Path(name)))
        loop = mean([before, reference_loop.seconds()])
    seconds = parts_of(lines)
    whole = lines[-1][0]
    demo = whole - seconds[INSTALLED]
    goals: Mapping[str, Goal] = {FIRST_TABLE: Goal(15)}
    return [
        of_the_demo(demo, loop),
        Figure("the same, by the clock", "s", [demo], goal=Goal(60)),
        Figure("with the installation", "s", [whole], goal=Goal(120)),
        *(Figure(f"until {part}", "s", [seconds[part]], goal=goals.get(part)) for part in PARTS),
    ]


def of_the_demo(seconds: float, loop_seconds: float) -> Figure:
    """What every run must reach: no more than twice what the demo took of reference loops."""
    at_most = Goal(2 * LOOPS, of="reference loop", must=True)
    return Figure("the demo, set up", "s", [seconds], {"reference loop": [loop_seconds]}, at_most)


def parts_of(lines: Sequence[tuple[float, str]]) -> dict[str, float]:
    """The seconds of each of `PARTS`. `lines`: what the demo said, each with the seconds since its start; the last one
    is its end."""
    return {part: _at(lines, end, lines[-1][0]) - _at(lines, begin, 0.0) for part, (begin, end) in PARTS.items()}


def _at(lines: Iterable[tuple[float, str]], words: str, otherwise: float) -> float:
    """When the first line with these words came."""
    if not words:
        return otherwise
    for seconds, line in lines:
        if words in line:
            return seconds
    raise WrongAnswer(f"the demo never said {words!r}")


def _lines(clone: Path) -> Iterator[tuple[float, str]]:
    """What `make demo` says, each line with the seconds since its start, and an empty one at its end. Raises
    `WrongAnswer` when it fails: it compares every table with the org itself."""
    begun = time.perf_counter()
    said = []
    with subprocess.Popen(
        ["make", "demo"],
        env={**_of_nobody(), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
        cwd=clone,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            yield time.perf_counter() - begun, line
    if process.returncode:
        raise WrongAnswer(f"make demo ended with {process.returncode}: {''.join(said)[-3000:]}")
    yield time.perf_counter() - begun, ""


def _not_of_a_clone(folder: str, names: list[str]) -> set[str]:
    """What of a folder is only there because something ran in it."""
    made = (".git", ".venv", ".sfcdc", "build", ".env") if Path(folder) == ROOT else ()
    return {name for name in names if name in made or name.endswith(("__pycache__", "_cache", ".egg-info"))}


def _of_nobody() -> dict[str, str]:
    """The environment of somebody who has nothing of the project but the clone."""
    return {name: value for name, value in clean_environment().items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


STAGE = Stage(
    title="`make demo` in a fresh clone",
    measure=measure,
    compared="The demo itself compares every table with the org, field by field, and fails if one differs.",
    limit="Two cores for the org, the JVM, its workers and the driver, with half of all CPU seconds, and waiting for "
    "the end of each round's last transaction. The installation: packages that no cache of pip or uv has, and "
    "compiling them.",
)
