"""`sfcdc maintain` and the nightly job: the same work, reported as lines, as JSON, and as metadata of the assets."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.lake.tables.audits import Audit, note_audit
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs.run_config import LONG
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.lake.maintenance.test_pack import ALL, BEGUN, land
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Events of three commits, and as many audits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    for number in (1, 2, 3):
        land(warehouse, ALL, [number])
        note_audit(warehouse, Audit("Account", ALL, number, BEGUN, 1, 1, 0, 1, 0))
    return warehouse


def damage(warehouse: Warehouse) -> Path:
    path = warehouse.folder / "raw_events" / RawEvents.open(warehouse).table.files()[0].path
    path.write_bytes(b"nothing")
    return path


def test_a_line_for_each_table_in_which_there_was_something_to_do(warehouse: Warehouse) -> None:
    done = sfcdc("maintain")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.rpartition(", ")[0] for line in lines[:-1]] == [
        "raw_events: 3 files packed into 1",
        "audits: 3 files packed into 1",
    ]
    assert lines[-1].startswith("2 tables maintained, 2 changed: 6 files packed into 2, 0 unused files deleted,")
    assert [line.split(":")[0] for line in sfcdc("maintain").stdout.splitlines()] == ["2 tables maintained, 0 changed"]


def test_as_json_for_programs(warehouse: Warehouse) -> None:
    noted = json.loads(sfcdc("maintain", "--json").stdout)
    assert [(each["table"], each["packed"], each["problem"]) for each in noted["tables"]] == [
        ("raw_events", 3, None),
        ("audits", 3, None),
    ]


def test_a_damaged_table_is_named_with_its_remedy_and_the_command_fails(warehouse: Warehouse) -> None:
    path = damage(warehouse)
    done = sfcdc("maintain")
    assert done.exit_code == 1
    assert path.name in done.stdout
    assert "sfcdc rebuild --from-org --entity Account" in done.stdout
    assert "audits: 3 files packed into 1" in done.stdout


def test_the_help_says_what_it_does_and_what_it_does_not() -> None:
    noted = " ".join(sfcdc("maintain", "--help").stdout.split())
    assert "No row changes" in noted
    assert "safe at any time" in noted


def test_the_nightly_job_tells_each_asset_what_was_done_to_its_tables(warehouse: Warehouse) -> None:
    with instance_in_memory() as instance:
        job = defs.resolve_job_def(ASSETS.name("maintain"))
        done = job.execute_in_process(instance=instance)
        assert done.success
        assert LONG.items() <= job.tags.items()
        key = dg.AssetKey(["salesforce", "raw_events"])
        (observed,) = instance.fetch_observations(key, limit=5).records
        assert observed.asset_observation is not None
        metadata = observed.asset_observation.metadata
        assert (metadata["files_packed"].value, metadata["packed_into"].value) == (6, 2)


def test_the_nightly_job_fails_with_what_a_person_has_to_mend(warehouse: Warehouse) -> None:
    path = damage(warehouse)
    with instance_in_memory() as instance:
        done = defs.resolve_job_def(ASSETS.name("maintain")).execute_in_process(instance=instance, raise_on_error=False)
        assert not done.success
        (failed,) = (event for event in done.all_events if event.is_step_failure)
        assert path.name in failed.step_failure_data.error_display_string


def test_the_schedule_is_on() -> None:
    schedule = defs.resolve_schedule_def(ASSETS.name("maintain_every_night"))
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert schedule.job_name == "salesforce_maintain"
