"""What a person waits for before a command answers: `sfcdc --help` and `sfcdc status`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sfcdc_assets.cli.main import COMMANDS
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.benchmarks.interleave import Trial, cpu_seconds, interleaved, wall_seconds
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.apply.many_entities import Entities

ENTITIES = 5
DAGSTER = "dagster --help"


def command(*arguments: str) -> str:
    """What a program of this environment says."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def measure(quick: bool) -> Sequence[Figure]:
    """Both, beside the help of Dagster's own command, by the clock and in CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(str(Path(folder) / "warehouse"))
        of = Entities(warehouse, [f"Entity{number}__c" for number in range(ENTITIES)], 20)
        of.day_zero()
        of.land(2)
        OrganizationLog(warehouse).bind("00D000000000001AAA", 1_700_000_000_000, {})
        os.environ["SFCDC_WAREHOUSE"] = warehouse.root
        _compare(warehouse)
        contestants = {
            "--help": ("sfcdc_assets.cli", "--help"),
            "status": ("sfcdc_assets.cli", "status"),
            DAGSTER: ("dagster", "--help"),
        }
        figures = []
        for unit, of_unit in (("s", wall_seconds), ("CPU s", cpu_seconds)):
            trials: dict[str, Trial] = {
                name: of_unit(lambda arguments=arguments: command(*arguments))
                for name, arguments in contestants.items()
            }
            found = interleaved(trials, rounds=1 if quick else 9)
            for case, bound in (("--help", 0.5), ("status", 0.7)):
                figures.append(Figure(f"sfcdc {case}", unit, found[case], {DAGSTER: found[DAGSTER]}, Goal(bound)))
        return figures


def _compare(warehouse: Warehouse) -> None:
    reported = json.loads(command("sfcdc_assets.cli", "status", "--json"))
    expected = json.loads(json.dumps(status_of(warehouse, load_settings()).to_json()))
    for each in (reported, expected):
        del each["at"]  # the second in which it was asked
    if reported != expected or len(reported["entities"]) != ENTITIES:
        raise WrongAnswer(f"status says {reported}, and the tables {expected}")
    listed = command("sfcdc_assets.cli", "--help")
    if missing := [name for name in COMMANDS if f" {name} " not in listed]:
        raise WrongAnswer(f"--help does not list {missing}")


STAGE = Stage(
    "Start of the command line",
    measure,
    "What `status --json` says with what this process reads from the same tables, and the list of commands with the "
    "modules there are.",
    "Help is Python, Typer and Rich; status is importing Arrow, Polars, delta-rs and Pydantic (0.5 s), and opening the "
    "tables.",
)
