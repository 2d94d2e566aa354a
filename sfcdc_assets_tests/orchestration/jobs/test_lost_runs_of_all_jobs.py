"""Runs of all jobs say that they live, and one that does not is ended, also where no other run would wait for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.lake.maintenance.table_done import TableDone
from sfcdc_assets.lake.store.runs_at_work import AtWork, note_at_work, noted_at_work
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.jobs import LAYERS, lost_runs, maintenance
from sfcdc_assets.orchestration.jobs.event_log import Ours
from sfcdc_assets.orchestration.jobs.formulas import why_not_read
from sfcdc_assets.orchestration.jobs.lost_runs import end_lost_runs
from sfcdc_assets.orchestration.jobs.packing import why_not_packed
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own

__all__ = ["no_settings_but_the_tests_own"]

STARTED = dg.DagsterRunStatus.STARTED
OURS = Ours(ASSETS.prefix, frozenset(job.name for job in defs.get_repository_def().get_all_jobs()))


def job_named(name: str) -> dg.JobDefinition:
    return defs.resolve_job_def(ASSETS.name(name))


def seconds_ago(seconds: float) -> int:
    return round(Clock().now_ms() - seconds * 1000)


def status(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def no_packing(instance: dg.DagsterInstance, warehouse: Warehouse) -> str | None:
    return why_not_packed(ASSETS, instance, warehouse, None)


def no_formulas(instance: dg.DagsterInstance, warehouse: Warehouse) -> str | None:
    return why_not_read(ASSETS, instance, warehouse, load_settings())


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path))
    with instance_in_memory() as opened:
        yield opened


@pytest.mark.parametrize("name", ["thin_out", "maintain", "audit", "drop_payloads", "forget_runs", "check_topics"])
def test_a_lost_run_of_any_job_of_ours_is_ended_by_the_sensor_that_looks_for_them(
    tmp_path: Path, instance: dg.DagsterInstance, name: str
) -> None:
    warehouse, job, sensor = (
        Warehouse(str(tmp_path)),
        job_named(name),
        defs.resolve_sensor_def(ASSETS.name("end_lost_runs")),
    )
    lost, living, begun = (run_of(instance, str(job.name), job.tags, STARTED) for _ in range(3))
    note_at_work(warehouse, lost.run_id, seconds_ago(lost_runs.SILENT_SECONDS + 1))
    note_at_work(warehouse, living.run_id, seconds_ago(1))
    with dg.build_sensor_context(instance=instance) as context:
        said = sensor.evaluate_tick(context)
        assert "Every run" in str(sensor.evaluate_tick(context).skip_message)
    assert lost.run_id[:8] in str(said.skip_message)
    assert [status(instance, run) for run in (lost, living, begun)] == [dg.DagsterRunStatus.FAILURE, STARTED, STARTED]


def test_a_run_of_another_code_location_is_not_touched_and_one_of_assets_only_when_it_has_said_that_it_lives(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_runs, "SILENT_SECONDS", -1.0)
    warehouse = Warehouse(str(tmp_path))
    theirs = run_of(instance, "nightly_models", {}, STARTED)
    selected = frozenset([dg.AssetKey([*ASSETS.prefix, "history"])])
    of_assets = instance.add_run(dg.DagsterRun("__ASSET_JOB", status=STARTED, asset_selection=selected))
    assert end_lost_runs(instance, warehouse, OURS) == []
    note_at_work(warehouse, of_assets.run_id, seconds_ago(1))
    assert [run.run_id for run in end_lost_runs(instance, warehouse, OURS)] == [of_assets.run_id]
    assert status(instance, theirs) is STARTED


@pytest.mark.parametrize(("look", "name"), [(no_packing, "pack"), (no_formulas, "read_formulas")])
def test_a_lost_run_is_no_reason_against_the_next_one(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    look: Callable[[dg.DagsterInstance, Warehouse], str | None],
    name: str,
) -> None:
    warehouse, job = Warehouse(str(tmp_path)), job_named(name)
    run = run_of(instance, str(job.name), job.tags, STARTED)
    assert look(instance, warehouse) == "A run is at work."
    note_at_work(warehouse, run.run_id, seconds_ago(lost_runs.SILENT_SECONDS + 1))
    assert look(instance, warehouse) != "A run is at work."


def test_every_job_of_ours_says_that_it_lives() -> None:
    scope = ASSETS.name("run_scope")
    silent = {
        job.name
        for job in defs.get_repository_def().get_all_jobs()
        if not job.name.startswith("__ASSET_JOB")
        and job.name != ASSETS.name(LAYERS)  # people launch both
        and not any(
            scope in node.required_resource_keys for node in job.all_node_defs if isinstance(node, dg.OpDefinition)
        )
    }
    assert silent == set()


def test_a_run_of_maintenance_says_that_it_lives_and_ceases_when_it_is_over(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AtWork | None] = []

    def look(warehouse: Warehouse, *_rest: object) -> Iterator[TableDone]:
        (run,) = instance.get_runs()
        noted.append(noted_at_work(warehouse, run.run_id))
        return iter(())

    monkeypatch.setattr(maintenance, "thin_out", look)
    done = job_named("thin_out").execute_in_process(instance=instance)
    assert done.success
    assert [each is not None and each.process == os.getpid() for each in noted] == [True]
    assert noted_at_work(Warehouse(str(tmp_path)), done.run_id) is None
