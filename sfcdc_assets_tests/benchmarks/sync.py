"""`sfcdc sync` for five events: with a Spark of its own, and with a standing one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.spark import standing
from sfcdc_assets_tests.benchmarks.interleave import interleaved
from sfcdc_assets_tests.benchmarks.org_process import compare, environment, running, served_org, sfcdc
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

EVENTS = 5
READY_SECONDS = 120.0


def measure(quick: bool) -> Sequence[Figure]:
    """Seconds on the clock from the start of the command to its end, its imports and Spark included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served_org(folder, 50 if quick else 500) as (org, server):
            env = environment(server, folder, SFCDC_SPARK_STANDING=str(folder / "nobody.json"))
            shared = {**env, "SFCDC_SPARK_STANDING": str(folder / "spark.json")}
            _change(org)  # a stream that never had an event answers with its first keepalive, after 270 seconds
            sfcdc("sync", "--until-caught-up", env=env, cwd=folder)
            with running("spark", env=shared, cwd=folder, log=folder / "spark.log") as process:
                _wait_for(folder / "spark.json", process.poll)
                sfcdc("sync", env=shared, cwd=folder)
                found = interleaved(
                    {
                        "alone": lambda: _seconds(org, env, folder),
                        "standing": lambda: _seconds(org, shared, folder),
                    },
                    rounds=1 if quick else 5,
                )
            sfcdc("sync", "--until-caught-up", env=env, cwd=folder)
            compare(org, folder)
    return [
        Figure(f"{EVENTS} events, a Spark of its own", "s", found["alone"], goal=Goal(8)),
        Figure(f"{EVENTS} events, a standing Spark", "s", found["standing"], goal=Goal(4)),
    ]


def _change(org: EmulatedOrg) -> None:
    accounts = [str(record["Id"]) for record in org.records("Account")][:EVENTS]
    for record_id in accounts:
        with org.transaction() as one:
            one.update("Account", record_id, {"Description": f"changed at {time.time_ns()}"})


def _seconds(org: EmulatedOrg, env: dict[str, str], folder: Path) -> float:
    _change(org)
    time.sleep(1.0)  # the org shows a change some hundred milliseconds after its commit
    begun = time.perf_counter()
    sfcdc("sync", env=env, cwd=folder)
    return time.perf_counter() - begun


def _wait_for(path: Path, ended: Callable[[], int | None]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while (found := standing.read(path)) is None or found.is_starting:
        if ended() is not None or time.monotonic() > deadline:
            raise WrongAnswer("sfcdc spark did not come up")
        time.sleep(0.05)


STAGE = Stage(
    title="`sfcdc sync`, 5 events",
    measure=measure,
    compared="After all rounds every row of every table is compared with the org's log, field by field.",
    limit="Without a standing Spark the start of the JVM and its first job; with one, Python's imports and the second "
    "that the stream is given to say more.",
)
