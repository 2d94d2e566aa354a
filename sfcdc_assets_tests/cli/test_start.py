"""What a command imports before it answers: the libraries that take seconds are there for those that need them."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sfcdc_assets.cli.main import COMMANDS, PANELS, function_of
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.apply.many_entities import Entities

pytestmark = pytest.mark.slow

LIBRARIES = {
    "dagster", "deltalake", "fastavro", "grpc", "numpy", "pandas", "polars", "py4j", "pyarrow", "pydantic", "pyspark",
    "requests", "rich", "simple_salesforce", "sqlalchemy", "starlette", "typer", "zeep",
}  # fmt: skip
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: print("LOADED", *sorted({LIBRARIES} & sys.modules.keys())))
from sfcdc_assets.cli.__main__ import main
main()
"""


def loaded_by(*arguments: str, settings: Mapping[str, str] | None = None) -> set[str]:
    """The libraries that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **(settings or {})},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].removeprefix("LOADED").split())


def test_the_list_of_commands_imports_no_library_but_those_that_draw_it() -> None:
    assert loaded_by("--help") <= {"typer", "rich"}


def test_the_help_lists_every_command_once() -> None:
    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)


def test_the_help_of_a_command_imports_what_that_command_needs_alone() -> None:
    assert not loaded_by("status", "--help") & {"dagster", "pyspark", "grpc", "simple_salesforce", "pandas"}


def test_status_imports_what_reads_tables_and_draws_them_alone(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    of = Entities(warehouse, ["Account", "Contact"], 3)
    of.day_zero()
    of.land(1)
    OrganizationLog(warehouse).bind("00D000000000001AAA", 1_700_000_000_000, {})
    suspect = NewSuspect(ENTITY, Reason.VIEW_ALL_MISSING, 3, "the permission is gone")
    Ledger.open_or_create(warehouse, "Account").note([suspect], "/data/ChangeEvents", 3, 1_700_000_000_000)

    loaded = loaded_by("status", settings={"SFCDC_WAREHOUSE": warehouse.root})

    assert loaded <= {"typer", "rich", "pydantic", "numpy", "pyarrow", "polars", "deltalake", "fastavro"}


def test_a_code_server_loads_its_definitions_without_pandas() -> None:
    """45 MB of each process. Arrow imports it at the first empty array, and with `pyarrow.dataset`."""
    program = "import sys, sfcdc_assets.definitions; print('pandas' in sys.modules)"
    settings = {"SFCDC_INSTANCE_URL": "https://mycompany.my.salesforce.com"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_says_of_a_command_what_its_help_begins_with(command: str) -> None:
    first = inspect.getdoc(function_of(command)).split("\n\n")[0]
    assert COMMANDS[command] == " ".join(first.split())
