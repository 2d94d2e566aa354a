"""The first tables of an org of one's own: from the start of `sfcdc sync`, and of `sfcdc dev`, until all are there."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets_tests.benchmarks import reference_loop
from sfcdc_assets_tests.benchmarks.org_process import compare, environment, running, served_org, sfcdc, wait_for_tables
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage
from sfcdc_assets_tests.documentation import ROOT

RECORDS = 300
READY_SECONDS = 600.0
SYNC, DEV = "`sfcdc sync`", "`sfcdc dev`, the UI included"


def measure(quick: bool) -> Sequence[Figure]:
    """Seconds on the clock for eight small objects, everything that is started included, beside the reference loop."""
    found: dict[str, list[float]] = {SYNC: [], DEV: []}
    loops = [reference_loop.seconds()]
    with tempfile.TemporaryDirectory() as name, served_org(Path(name), RECORDS) as (org, server):
        make_first_change(org, server.bus)
        for number in range(1 if quick else 3):
            folder = Path(name) / str(number)
            for each, measured in ((SYNC, _synced), (DEV, _developed)):
                its = folder / ("sync" if each == SYNC else "dev")
                its.mkdir(parents=True)
                found[each].append(measured(environment(server, its), its, org.selected_entities))
                loops.append(reference_loop.seconds())
                compare(org, its)
    goals = {SYNC: Goal(14), DEV: Goal(33)}
    return [Figure(f"{each}, 8 objects", "s", found[each], {"reference loop": loops}, goals[each]) for each in found]


def _synced(env: Mapping[str, str], folder: Path, entities: Sequence[str]) -> float:
    begun = time.perf_counter()
    sfcdc("sync", env=env, cwd=folder)
    return time.perf_counter() - begun


def _developed(env: Mapping[str, str], folder: Path, entities: Sequence[str]) -> float:
    begun, log = time.perf_counter(), folder / "dev.log"
    with running("dev", "--dir", str(folder / "dev"), "--port", "0", "--yes", env=env, cwd=ROOT, log=log) as process:
        wait_for_tables(process, folder, entities, log, READY_SECONDS)
        return time.perf_counter() - begun


STAGE = Stage(
    title="First tables of an org",
    measure=measure,
    compared="Every row of every table is compared with the org's log, field by field.",
    limit="Starting: Python's imports in each process (three seconds of a core for Dagster and the definitions), and "
    "the JVM with its workers.",
)
