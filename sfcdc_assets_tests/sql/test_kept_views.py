"""The files of views that settings name: brought to the newest cut after each sync, through Dagster."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import duckdb
import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.kept_views import AGAIN_SECONDS, build_kept_views
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests
from sfcdc_assets_tests.sql.small_warehouse import note_cut, small_warehouse

ENTITIES = ("Account", "Case")


def built() -> dg.Definitions:
    return build_kept_views(OrgAssets())


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Warehouse:
    only_settings_of_tests(monkeypatch)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    return Warehouse(str(tmp_path / "warehouse"))


def test_each_newer_cut_is_written_once(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = tmp_path / "pinned.duckdb", tmp_path / "live.duckdb"
    for name, file in zip(("SFCDC_VIEWS_FILE", "SFCDC_LIVE_VIEWS_FILE"), files, strict=True):
        monkeypatch.setenv(name, str(file))
    defs = built()
    sensor, job = defs.resolve_sensor_def("salesforce_views_follow_the_cut"), defs.resolve_job_def("salesforce_views")
    cursor = None

    def asks() -> bool:
        nonlocal cursor
        context = dg.build_sensor_context(instance=instance, cursor=cursor)
        requests = sensor.evaluate_tick(context).run_requests
        cursor = context.cursor
        return bool(requests)

    with dg.DagsterInstance.ephemeral() as instance:
        assert not asks()
        small_warehouse(warehouse.folder, ENTITIES)
        assert asks()
        assert not asks()
        run = job.execute_in_process(instance=instance)
        (made,) = run.get_asset_materialization_events()
        assert made.materialization.metadata["entities"].value == len(ENTITIES)
        note_cut(warehouse, ENTITIES, 2)
        assert asks()
        assert job.execute_in_process(instance=instance).success
    with duckdb.connect(str(files[0]), read_only=True) as pinned:
        assert pinned.execute("SELECT position FROM sfcdc_cut").fetchall() == [(2,)]
    with duckdb.connect(str(files[1]), read_only=True) as live:
        assert live.execute("SELECT count(*) FROM account").fetchall() == [(0,)]
        assert live.execute("SELECT position FROM sfcdc_cut").fetchall() in ([(1,)], [(2,)])


class Later(clock.Clock):
    def now_ms(self) -> int:
        return super().now_ms() + (AGAIN_SECONDS + 1) * 1000


def test_views_that_could_not_be_written_are_asked_for_again_though_no_newer_cut_comes(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "made later"
    monkeypatch.setenv("SFCDC_VIEWS_FILE", str(folder / "pinned.duckdb"))
    small_warehouse(warehouse.folder, ENTITIES)
    defs = built()
    sensor, job = defs.resolve_sensor_def("salesforce_views_follow_the_cut"), defs.resolve_job_def("salesforce_views")
    with dg.DagsterInstance.ephemeral() as instance:
        cursor, keys = None, set()
        for each in range(2):
            with clock.using(Later() if each else clock.Clock()):
                context = dg.build_sensor_context(instance=instance, cursor=cursor)
                (request,) = sensor.evaluate_tick(context).run_requests or ()
            cursor, keys = context.cursor, keys | {request.run_key}
            assert not job.execute_in_process(instance=instance, raise_on_error=False).success
            (skipped,) = [sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor)).skip_message]
            assert "could not be written" in (skipped or "")
        assert len(keys) == 2, "Dagster launches nothing twice for one key"
        folder.mkdir()
        assert job.execute_in_process(instance=instance).success
        with clock.using(Later()):
            assert not sensor.evaluate_tick(dg.build_sensor_context(instance=instance, cursor=cursor)).run_requests


def test_without_a_file_there_is_nothing_to_keep(warehouse: Warehouse) -> None:
    defs = built()
    assert not defs.assets
    assert not defs.sensors
