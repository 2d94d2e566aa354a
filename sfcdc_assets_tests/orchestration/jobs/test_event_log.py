"""What is deleted of Dagster's runs and events, and that every page shows the latest that it showed before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage

from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.orchestration.jobs import ours
from sfcdc_assets.orchestration.jobs.event_log import Forgotten, OtherEventLog, forget
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of

pytestmark = pytest.mark.slow

CHECK = dg.AssetCheckKey(ASSETS.keys.current_state, "is_fresh")
EVERYTHING = timedelta(minutes=1)
OURS = ours(ASSETS)
OTHERS = ours(OrgAssets(prefix=(*ASSETS.prefix, "emea")))


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def run(instance: dg.DagsterInstance, *entities: str, evaluates: bool = False) -> str:
    """A run that reports a materialization of each entity's partition."""

    @dg.op(out=dg.Out(dg.Nothing))
    def work() -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.Output[None]]:
        for entity in entities:
            yield dg.AssetMaterialization(ASSETS.keys.current_state, partition=entity)
        if evaluates:
            yield dg.AssetCheckEvaluation(ASSETS.keys.current_state, CHECK.name, passed=True)
        yield dg.Output(None)

    job = dg.GraphDefinition(name=ASSETS.name("sync"), node_defs=[work]).to_job()
    return job.execute_in_process(instance=instance).run_id


def materialized(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """A run of Dagster's own job over an asset."""
    status = dg.DagsterRunStatus.SUCCESS
    run = dg.DagsterRun("__ASSET_JOB", str(uuid4()), status=status, asset_selection=frozenset({key}))
    return instance.add_run(run).run_id


def forget_all(instance: dg.DagsterInstance) -> Forgotten:
    """As if everything was past its retention."""
    return forget(instance, datetime.now(UTC) + EVERYTHING, OURS)


def landed(instance: dg.DagsterInstance, entity: str) -> list[int]:
    """Positions of the materializations that ticks reported of a partition, oldest first."""
    wanted = dg.AssetRecordsFilter(asset_key=ASSETS.keys.raw_events, asset_partitions=[entity])
    records = instance.fetch_materializations(wanted, limit=100, ascending=True).records
    found = [record.asset_materialization for record in records]
    return [int(cast(int, each.metadata["position"].value)) for each in found if each is not None]


def test_old_runs_go_and_those_with_a_partitions_latest_materialization_stay(instance: dg.DagsterInstance) -> None:
    superseded, latest, without = run(instance, "Account"), run(instance, "Account", "Contact"), run(instance)
    storage = instance.event_log_storage
    assert isinstance(storage, SqliteEventLogStorage)
    assert Path(storage.path_for_shard(superseded)).exists()
    assert forget_all(instance) == Forgotten(runs=2, events=0, kept=1)
    assert [instance.has_run(each) for each in (superseded, latest, without)] == [False, True, False]
    assert instance.get_materialized_partitions(ASSETS.keys.current_state) == {"Account", "Contact"}
    assert instance.all_logs(latest)
    assert not Path(storage.path_for_shard(superseded)).exists(), "a file for each run would stay for ever"


def test_a_run_with_the_latest_evaluation_of_a_check_stays(instance: dg.DagsterInstance) -> None:
    superseded, latest = run(instance, evaluates=True), run(instance, evaluates=True)
    forget_all(instance)
    assert [instance.has_run(each) for each in (superseded, latest)] == [False, True]
    (record,) = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=10)
    assert record.run_id == latest


def test_of_what_ticks_reported_the_latest_of_each_partition_stays(instance: dg.DagsterInstance) -> None:
    for position in (1, 2, 3):
        for entity in ("Account", "Contact"):
            event = dg.AssetMaterialization(ASSETS.keys.raw_events, partition=entity, metadata={"position": position})
            instance.report_runless_asset_event(event)
    assert forget_all(instance) == Forgotten(runs=0, events=4, kept=0)
    assert [landed(instance, entity) for entity in ("Account", "Contact")] == [[3], [3]]
    assert forget_all(instance) == Forgotten(runs=0, events=0, kept=0)


def test_what_is_not_past_its_retention_stays(instance: dg.DagsterInstance) -> None:
    before = datetime.now(UTC) - timedelta(days=14)
    runs = [run(instance, "Account"), run(instance, "Account")]
    for position in (1, 2):
        event = dg.AssetMaterialization(ASSETS.keys.raw_events, partition="Account", metadata={"position": position})
        instance.report_runless_asset_event(event)
    assert forget(instance, before, OURS) == Forgotten(runs=0, events=0, kept=0)
    assert [instance.has_run(each) for each in runs] == [True, True]
    assert landed(instance, "Account") == [1, 2]


def test_what_another_code_location_of_the_instance_keeps_is_not_touched(instance: dg.DagsterInstance) -> None:
    key = dg.AssetKey([*OTHERS.prefix, "raw_events"])
    ours, emea, stranger = (
        run_of(instance, job, {}, dg.DagsterRunStatus.SUCCESS).run_id
        for job in ("salesforce_sync", "salesforce_emea_sync", "sync")
    )
    assets = [materialized(instance, of) for of in (ASSETS.keys.raw_events, key, dg.AssetKey("report"))]
    for _ in range(2):
        for of in (ASSETS.keys.raw_events, key, dg.AssetKey("report")):
            instance.report_runless_asset_event(dg.AssetMaterialization(of))
    assert forget_all(instance) == Forgotten(runs=2, events=1, kept=0)
    assert [instance.has_run(each) for each in (ours, assets[0])] == [False, False]
    assert all(instance.has_run(each) for each in (emea, stranger, *assets[1:]))
    assert forget(instance, datetime.now(UTC) + EVERYTHING, OTHERS) == Forgotten(runs=2, events=1, kept=0)
    assert all(instance.has_run(each) for each in (stranger, assets[2]))


def test_a_run_that_has_not_ended_stays_however_old_it_is(instance: dg.DagsterInstance) -> None:
    queued = run_of(instance, ASSETS.name("sync"), {}, dg.DagsterRunStatus.QUEUED).run_id
    started = run_of(instance, ASSETS.name("sync"), {}, dg.DagsterRunStatus.STARTED).run_id
    assert forget_all(instance).runs == 0
    assert instance.has_run(queued)
    assert instance.has_run(started)


def test_the_job_is_on_every_night_and_says_what_it_did(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert (
        defs.resolve_schedule_def(ASSETS.name("forget_runs_every_night")).default_status
        is dg.DefaultScheduleStatus.RUNNING
    )
    done = defs.resolve_job_def(ASSETS.name("forget_runs")).execute_in_process(instance=instance)
    said = [entry.user_message for entry in instance.all_logs(done.run_id)]
    assert any("older than 14 days deleted" in line for line in said)


def test_another_kind_of_event_log_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        event_log_storage = object()

    with pytest.raises(OtherEventLog, match=r"switch the schedule forget_runs_every_night off"):
        forget(cast(dg.DagsterInstance, Elsewhere()), datetime.now(UTC), OURS)


def test_the_job_runs_from_cron_too(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("dagster")), "job", "execute"]
    done = subprocess.run(
        [*command, "-m", "sfcdc_assets.definitions", "-j", ASSETS.name("forget_runs")],
        cwd=tmp_path,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "0 runs and 0 events of ticks older than 14 days deleted" in done.stderr
