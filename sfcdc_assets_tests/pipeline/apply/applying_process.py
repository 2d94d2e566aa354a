"""A process that lands and applies what the org of its settings has, once: `python -m` this module.

It stops before its first commit to a table that is named, says so, and goes on when it is given a line. It logs all
that can be logged. Batches are applied in the process itself, by the functions of Spark's tasks.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import until_settled
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.run_context import no_spark
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.run_contexts import run_on

CHANNEL, ENTITY = "/data/ChangeEvents", "Account"
STOPPED = "stopped before the commit"
CONFLICTS = "commits in which another was first: "


class ApplyingProcess:
    """One that runs, and all that it has written to its output."""

    def __init__(self, log: Path, environment: Mapping[str, str], *options: str) -> None:
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**environment, "RUST_LOG": "debug"},
                cwd=ROOT,
                text=True,
            )

    def wait_until_stopped(self) -> None:
        """Until it is about to commit."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == STOPPED, self.log.read_text()[-3000:]

    def go_on(self) -> None:
        """Let it commit."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def conflicts(self) -> int:
        """Wait for its end; how often another process was first."""
        said, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, self.log.read_text()[-3000:]
        return int(said.rpartition(CONFLICTS)[2])


def main() -> None:
    """The process's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop-before", metavar="TABLE")
    logging.basicConfig(level=logging.DEBUG)
    print(f"{CONFLICTS}{land_and_apply(stop_before=parser.parse_args().stop_before)}", flush=True)


def land_and_apply(*, snapshot: bool = False, stop_before: str | None = None) -> int:
    """Day zero, if it is asked for, then a run; returns how often another process was first."""
    settings = load_settings()
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    with pytest.MonkeyPatch.context() as patch, open_org(warehouse, settings) as org:
        without_spark(patch, Random(1))
        conflicts = _counted(patch)
        if stop_before:
            _stop_before(patch, stop_before)
        timeouts = until_settled(settings.settle_seconds)
        with Poller(warehouse, org, settings.settle_seconds, timeouts) as poller:
            if snapshot:
                at = poller.land(CHANNEL).position
                at_once = run_on(warehouse, org, no_spark, visibility_seconds=0.0)
                take_snapshot(at_once, ToCopy(ENTITY, CHANNEL), lambda _: at)
            known = {ENTITY: CHANNEL}
            CatchUp(run_on(warehouse, org), poller, known, known, ApplyListener(), every_entity=False).run()
    return len(conflicts)


def _counted(patch: pytest.MonkeyPatch) -> list[object]:
    """Conflicts, as they come."""
    found: list[object] = []
    made = ConcurrentCommit.__init__

    def count(error: ConcurrentCommit, *arguments: Any) -> None:
        found.append(error)
        made(error, *arguments)

    patch.setattr(ConcurrentCommit, "__init__", count)
    return found


def _stop_before(patch: pytest.MonkeyPatch, name: str) -> None:
    """Once."""
    committing = Table._committing
    has_stopped: list[bool] = []

    def commit(table: Table, *arguments: Any) -> Any:
        if table.name == name and not has_stopped:
            has_stopped.append(True)
            print(STOPPED, flush=True)
            sys.stdin.readline()
        return committing(table, *arguments)

    patch.setattr(Table, "_committing", commit)


def _no_spark() -> Any:
    raise AssertionError("no file has to be rewritten")


if __name__ == "__main__":
    main()
