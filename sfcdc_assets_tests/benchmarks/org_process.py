"""What the stages about time on the clock share: an org in this process, and commands of the project beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.benchmarks.stage import WrongAnswer
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows

SEED = 7
_LOOK_SECONDS = 0.2


@contextmanager
def served_org(folder: Path, records: int) -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    """An org with so many records of each object, behind its sockets, with the machine's clock."""
    org = EmulatedOrg(folder / "org", seed=SEED)
    try:
        org.populate(records)
        with EmulatorServer(org, directory=folder / "org") as server:
            yield org, server
    finally:
        org.close()


def clean_environment() -> dict[str, str]:
    """This process's, without settings of the project and of Dagster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    return {**kept, "PYTHONPATH": str(ROOT)}


def environment(server: EmulatorServer, folder: Path, **more: str) -> dict[str, str]:
    """Of a command that works on the org, with its tables below the folder."""
    warehouse = {"SFCDC_WAREHOUSE": str(folder / "warehouse")}
    return {**clean_environment(), **server.client_environment(), **warehouse, **more}


def sfcdc(*arguments: str, env: Mapping[str, str], cwd: Path) -> None:
    """A command, to its end. Raises `WrongAnswer` with what it said when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "sfcdc_assets.cli", *arguments],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise WrongAnswer(f"sfcdc {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}")


@contextmanager
def running(*arguments: str, env: Mapping[str, str], cwd: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that stays, ended with all that it started."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "sfcdc_assets.cli", *arguments],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_tables(
    process: subprocess.Popen[bytes], folder: Path, entities: Sequence[str], log: Path, seconds: float
) -> None:
    """Return when the first batch of every entity is committed; the table is made before. Raises `WrongAnswer` with
    what the process said where it ends, or after so many seconds."""
    warehouse, deadline = Warehouse(str(folder / "warehouse")), time.monotonic() + seconds
    while not all(_has_rows(warehouse, entity) for entity in entities):
        if process.poll() is not None or time.monotonic() > deadline:
            raise WrongAnswer(f"not every table came: {log.read_text()[-2000:]}")
        time.sleep(_LOOK_SECONDS)


def _has_rows(warehouse: Warehouse, entity: str) -> bool:
    table = Table.open(warehouse, current_state.name_of(entity))
    return table is not None and table.count() > 0


def compare(org: EmulatedOrg, folder: Path) -> None:
    """Raises `WrongAnswer` unless every table holds what the org's log says, field by field."""
    warehouse = Warehouse(str(folder / "warehouse"))
    for entity in org.selected_entities:
        table = Table.open(warehouse, current_state.name_of(entity))
        if table is None:
            raise WrongAnswer(f"{entity} has no table")
        rows = {row["Id"]: {**row, "_batch": None, "_first_batch": None} for row in table.scan().to_pylist()}
        try:
            assert_same_rows(entity, rows, expected_rows(org, entity))
        except AssertionError as error:
            raise WrongAnswer(f"{entity}: {error}") from error
