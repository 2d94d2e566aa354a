"""The demo: from nothing to tables that are proven equal to the org, by the clock, with its parts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean

from sfcdc_assets_tests.benchmarks import reference_loop
from sfcdc_assets_tests.benchmarks.org_process import clean_environment
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.documentation import ROOT

SMALL = ("--records", "500", "--events", "1500", "--rounds", "2")
LOOPS_OF_ALL, LOOPS_OF_SMALL = 20.0, 4.8
"""How many times the reference loop's the demo's seconds are, with its defaults and small, where nothing else runs."""
PARTS = {
    "until the org is up": ("", "The org is at "),
    "from there to the first table": ("The org is at ", "First table: "),
    "every record is copied": ("Step 2 ", "Step 3 "),
    "changes are followed": ("Step 3 ", "every table is compared"),
    "every table is compared": ("every table is compared", ""),
}
"""Each with the words of the lines that it begins and ends with; none are the command's own start and end."""


def measure(quick: bool) -> Sequence[Figure]:
    """Seconds of `sfcdc demo` with its defaults; set-up of `make demo` is not counted. The reference loop is run before
    and after it: how busy the machine is changes."""
    with tempfile.TemporaryDirectory() as name:
        before = reference_loop.seconds()
        lines = list(_lines("--dir", name, *(SMALL if quick else ())))
        loop = mean([before, reference_loop.seconds()])
    seconds = parts_of(lines)
    whole = lines[-1][0]
    case, loops = ("1,500 events", LOOPS_OF_SMALL) if quick else ("21,000 events", LOOPS_OF_ALL)
    beside = Goal(2 * loops, of="reference loop", must=True)
    goals: Mapping[str, Goal] = {} if quick else {"from there to the first table": Goal(15)}
    return [
        Figure(f"{case}, all of it", "s", [whole], {"reference loop": [loop]}, beside),
        *([] if quick else [Figure("6,500 records of each object, 21,000 events", "s", [whole], goal=Goal(60))]),
        *(Figure(part, "s", [seconds[part]], goal=goals.get(part)) for part in PARTS),
    ]


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


def _lines(*arguments: str) -> Iterator[tuple[float, str]]:
    """What the demo says, each line with the seconds since its start, and an empty one at its end. Raises `WrongAnswer`
    when it fails: it compares every table with the org itself."""
    begun = time.perf_counter()
    command = [sys.executable, "-u", "-m", "sfcdc_assets.cli", "demo", *arguments]
    said = []
    with subprocess.Popen(
        command,
        env={**clean_environment(), "COLUMNS": "200"},
        cwd=ROOT,
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
        raise WrongAnswer(f"sfcdc demo ended with {process.returncode}: {''.join(said)[-3000:]}")
    yield time.perf_counter() - begun, ""


STAGE = Stage(
    title="`make demo`, set up",
    measure=measure,
    compared="The demo itself compares every table with the org, field by field, and fails if one differs.",
    limit="Two cores for the org, the JVM, its workers and the driver; and waiting for the end of each round's last "
    "transaction.",
)
