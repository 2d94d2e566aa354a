"""Spark Connect before a cluster whose machines have nothing of ours: no package, no credentials, no shared folder.

What tasks import comes with the session, what opens the tables with the tasks, and the tables lie in an object store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfcdc_assets.apply.ready_spark import ready_spark
from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets.spark.workers import WorkersNotReady
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, assert_same_rows, expected_rows, ids
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.spark.spark_cluster import SparkCluster, spark_cluster
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, S3Server, s3_server
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow
from sfcdc_assets_tests.spark.this_process import end_spark
from sfcdc_assets_tests.store_login import log_in

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact")
PYTHON = f"{sys.base_prefix}/bin/python3"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two workers whose Python has only what Python itself has."""
    folder = tmp_path_factory.mktemp("bare") / "spark"
    with spark_cluster(folder, environment={"PYSPARK_PYTHON": PYTHON, "PYTHONPATH": ""}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def url(bare: SparkCluster) -> Iterator[str]:
    with bare.connect_server() as listening:
        yield listening


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings that ship it."""
    path = tmp_path_factory.mktemp("packed") / "workers.zip"
    said = CliRunner().invoke(app, ["spark", "--pack", str(path)])
    assert said.exit_code == 0, said.output
    return dict(line.split("=", 1) for line in said.stdout.splitlines())


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def spark(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settings of a client of the server, beside which the process can have no session of its own, as a file before
    this one may have left it. What PySpark remembers of being a client is forgotten at the end."""
    end_spark()
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("SFCDC_SPARK_REMOTE", url)
    monkeypatch.delenv("SFCDC_SPARK_MASTER")
    yield
    spark_session(load_settings()).stop()


@pytest.fixture
def in_store(store: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A warehouse in the store, with the credentials in this process's environment alone."""
    log_in(store.environment, monkeypatch)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.mark.usefixtures("spark")
@pytest.mark.soak
def test_workers_without_the_package_are_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    with pytest.raises(WorkersNotReady, match=r"sc://.* has no module \w+\. Install this release .*or ship it"):
        ready_spark(load_settings())
    assert list((tmp_path / "warehouse").iterdir()) == []


@pytest.mark.usefixtures("spark")
def test_an_archive_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SFCDC_SPARK_CONF_spark.archives", f"{tmp_path}/none.zip#sfcdc")
    with pytest.raises(SettingsError, match=r"spark\.archives: .*none\.zip is not there\. Write it with `sfcdc spark"):
        spark_session(load_settings())
    monkeypatch.delenv("SFCDC_SPARK_CONF_spark.archives")


@pytest.mark.usefixtures("spark")
def test_a_pipeline_whose_workers_have_no_package_no_credentials_and_no_shared_folder_equals_the_org(
    make_pipeline: Callable[..., EmulatedPipeline],
    bare: SparkCluster,
    archive: dict[str, str],
    in_store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not [name for name in bare.of_workers if name.startswith(("AWS_", "SFCDC_"))]
    pipeline = make_pipeline(*ENTITIES, records=40)
    for name, value in {**archive, "SFCDC_WAREHOUSE": in_store}.items():
        monkeypatch.setenv(name, value)
    warehouse = Warehouse(in_store)

    def assert_equal() -> None:
        for entity in ENTITIES:
            found = rows_of(warehouse, f"current_state/{entity}")
            rows = {row["Id"]: {**row, "_batch": None, "_first_batch": None} for row in found}
            assert len(rows) == len(found)
            assert_same_rows(entity, rows, expected_rows(pipeline.org, entity))

    pipeline.sync()
    assert_equal()
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)  # a gap, which is read back
    for turn in ("first", "second"):
        for entity in ENTITIES:
            for number, record_id in enumerate(ids(pipeline.org, entity)):
                with pipeline.org.transaction() as work:
                    if number in (3, 7):  # the oldest have no children
                        work.delete(entity, record_id)
                    else:
                        work.update(entity, record_id, {"Description": f"{turn}\nsecond line of {number}\n" * 3})
        pipeline.sync()
        assert_equal()
    for entity in ENTITIES:
        versions = versions_of(warehouse, entity)
        assert len(versions) > 2 * 40
        assert_versions_follow(versions)
    workers = {executor for of in bare.tasks_by_executor().values() for executor in of}
    assert len(workers) == 2
