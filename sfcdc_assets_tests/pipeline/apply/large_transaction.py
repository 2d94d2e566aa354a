"""One transaction of very many changes: `python -m sfcdc_assets_tests.pipeline.apply.large_transaction --changes
100000`.

A process of its own lands and applies it, so that its memory is the pipeline's alone and not the emulated org's too.
The kernel keeps the most that a process ever held; writing 5 to `clear_refs` begins a new count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sfcdc_assets.apply.apply_changes import ToApply, apply_entity
from sfcdc_assets.apply.record_cut import note_cut
from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import until_settled
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.fixtures import SPARK_OF_TESTS
from sfcdc_assets_tests.run_contexts import run_on

ROOT = Path(__file__).parents[3]
ENTITIES = ("Account", "Contact")
FIELDS_OF_UPDATE = 4
"""At most: the field, and those that tell who changed the account and when."""
SECONDS = 1200


@dataclass(frozen=True)
class Figures:
    """What the transaction came to. Megabytes: what was landed, how much more than after day zero the process
    held at its most while it landed and while it applied, and the most that the JVM and one of Spark's Python workers
    held in all."""

    events: int
    payload_mb: float
    landing_mb: float
    driver_mb: float
    jvm_mb: float
    worker_mb: float
    landing_seconds: float
    apply_seconds: float
    contacts: int
    contacts_in_cut: int


def run(changes: int, text: int, folder: Path) -> Figures:
    """Commit a transaction of so many changes, each with a text of so many characters, and see it landed and applied.

    They create contacts, but for the last ones: each updated field of an account counts as a change.
    """
    settings = OrgSettings(daily_event_deliveries=10**7)
    org = EmulatedOrg(folder / "org", seed=5, settings=settings)
    try:
        org.selected_entities = list(ENTITIES)
        org.populate(20)
        account = str(next(iter(org.records("Account")))["Id"])
        server = EmulatorServer(org, directory=folder / "org")
        make_first_change(org, server.bus)
        with server, (folder / "process.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "sfcdc_assets_tests.pipeline.apply.large_transaction", "--watched"],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(server, folder),
            )
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "day zero\n", (folder / "process.log").read_text()[-3000:]
                with org.transaction() as one:
                    for number in range(changes - FIELDS_OF_UPDATE):
                        one.create("Contact", {"LastName": f"of one {number}", "Description": "x" * text})
                    one.update("Account", account, {"NumberOfEmployees": changes})
                description, _ = process.communicate("go on\n", timeout=SECONDS)
            finally:
                process.kill()
            assert process.returncode == 0, (folder / "process.log").read_text()[-3000:]
        return Figures(**json.loads(description))
    finally:
        org.close()


def _environment(server: EmulatorServer, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    return {
        **kept,
        **SPARK_OF_TESTS,
        **server.client_environment(),
        "PYTHONPATH": str(ROOT),
        "SFCDC_WAREHOUSE": str(folder / "warehouse"),
        "SFCDC_SETTLE_SECONDS": "2",
        "SFCDC_VISIBILITY_SECONDS": "0",
        "SFCDC_SPARK_CONF_spark.driver.extraJavaOptions": QUICK_JVM,
    }


def watched() -> Figures:
    """The process that is watched: day zero, then the transaction."""
    settings = load_settings()
    warehouse, channels = Warehouse(settings.warehouse), dict.fromkeys(ENTITIES, CHANNEL)
    spark = spark_session(settings)
    with connect(settings) as org, Poller(warehouse, org, settings.settle_seconds) as poller:
        run = run_on(warehouse, org, lambda: spark)

        def apply() -> None:
            # Nothing that is older than what was read from the org may be missing.
            timeouts = replace(until_settled(settings.settle_seconds), through_ms=clock.now_ms())
            landed = poller.land(CHANNEL, timeouts)
            position = landed.complete_position
            for entity in ENTITIES:
                apply_entity(run, ToApply(entity, CHANNEL, position))
            assert note_cut(warehouse, channels, CHANNEL, position, landed.complete_through_ms).cut

        watermarks = Watermarks(run, poller)
        for entity in ENTITIES:
            take_snapshot(run, ToCopy(entity, CHANNEL), lambda position: watermarks.of(CHANNEL, position))
        apply()
        print("day zero", flush=True)
        sys.stdin.readline()
        before = status("self", "VmRSS")
        landing_peak, landing_seconds = measured(lambda: poller.land(CHANNEL))
        driver_peak, apply_seconds = measured(apply)
        java, workers = peaks_of_spark()
    contacts = Path(settings.warehouse) / "current_state" / "Contact"
    from deltalake import DeltaTable  # noqa: PLC0415 - only to look at the end

    cut = latest_cut(warehouse, CHANNEL)
    assert cut is not None
    in_cut = DeltaTable(str(contacts), version=cut.tables["current_state/Contact"])
    events = DeltaTable(str(Path(settings.warehouse) / "raw_events"))
    return Figures(
        events=events.count(),
        payload_mb=sum(len(row) for batch in events.scan(["payload"]) for row in batch["payload"].to_pylist()) / 1e6,
        landing_mb=landing_peak - before,
        driver_mb=driver_peak - before,
        jvm_mb=java,
        worker_mb=workers,
        landing_seconds=landing_seconds,
        apply_seconds=apply_seconds,
        contacts=DeltaTable(str(contacts)).count(),
        contacts_in_cut=in_cut.count(),
    )


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """The most megabytes that this process held while it worked, and seconds."""
    began = time.monotonic()
    Path("/proc/self/clear_refs").write_text("5")
    work()
    return status("self", "VmHWM"), time.monotonic() - began


def status(pid: int | str, name: str) -> float:
    """Megabytes of a process, such as `VmRSS` (now) or `VmHWM` (at most); 0 when it has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1000
    return 0.0


def peaks_of_spark() -> tuple[float, float]:
    """The most that the JVM held, and the most that one of its Python workers did."""
    held = {pid: status(pid, "VmHWM") for pid in _descendants()}
    java = {pid for pid in held if Path(f"/proc/{pid}/comm").read_text().startswith("java")}
    return max(held[pid] for pid in java), max(held[pid] for pid in held.keys() - java)


def _descendants() -> list[int]:
    """Processes that this one has started, and those they have: the JVM and Spark's Python workers."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    found, mine = [], {os.getpid()}
    while mine:
        mine = {pid for pid, parent in parents.items() if parent in mine}
        found += sorted(mine)
    return found


def main() -> None:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000, help="over 100,000 the org sends overflow events")
    parser.add_argument("--text", type=int, default=500, help="characters of each contact's description")
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watched:
        print(json.dumps(asdict(watched())))
        return
    with tempfile.TemporaryDirectory(prefix="large-transaction-") as folder:
        began = time.monotonic()
        for name, value in asdict(run(given.changes, given.text, Path(folder))).items():
            print(f"{name:18}{value:12,.1f}")
        print(f"{'seconds in all':18}{time.monotonic() - began:12,.1f}")


if __name__ == "__main__":
    main()
