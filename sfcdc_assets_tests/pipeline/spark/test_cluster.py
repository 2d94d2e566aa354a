"""A standalone cluster of two workers does what one machine does, and the loss of a worker loses nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sfcdc_assets.apply.apply_changes import ToApply, apply_entities
from sfcdc_assets.apply.ready_spark import ready_spark
from sfcdc_assets.cli.main import app
from sfcdc_assets.doctor.finding import Outcome
from sfcdc_assets.doctor.workers import workers
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import is_lost
from sfcdc_assets.spark.warm_up import warm_up
from sfcdc_assets.spark.workers import WorkersNotReady
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Entities
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.spark.spark_cluster import SparkCluster, spark_cluster
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, s3_server
from sfcdc_assets_tests.run_contexts import run_on
from sfcdc_assets_tests.spark.this_process import end_spark
from sfcdc_assets_tests.store_login import log_in

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact", "Lead", "Opportunity")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """The cluster of this module; its last test kills a worker."""
    with spark_cluster(tmp_path_factory.mktemp("cluster") / "spark") as started:
        yield started


@pytest.fixture
def cluster(two_workers: SparkCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    """The settings of this process name its master. A session keeps its own for as long as the process has it."""
    end_spark()
    for name, value in two_workers.environment.items():
        monkeypatch.setenv(name, value)
    yield two_workers
    end_spark()


@pytest.fixture
def spark(cluster: SparkCluster) -> SparkSession:
    """The session on the cluster; that a test of the module has it makes all of them apply batches in Spark."""
    return ready_spark(load_settings())


@pytest.mark.soak
def test_workers_whose_python_lacks_the_package_are_refused_with_what_to_install(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", f"{sys.base_prefix}/bin/python3")
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    with pytest.raises(WorkersNotReady, match=r"spark://.* has no module \w+\. Install this release of sfcdc_assets"):
        ready_spark(load_settings())
    found = workers(load_settings(), ready_spark)
    assert (found.outcome, "has no module" in found.found) == (Outcome.FAILED, True)
    assert list((tmp_path / "warehouse").iterdir()) == []


@pytest.mark.soak
def test_workers_without_the_package_have_it_from_the_archive(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = tmp_path / "workers.zip"
    said = CliRunner().invoke(app, ["spark", "--pack", str(archive)])
    assert said.exit_code == 0, said.output
    monkeypatch.setenv("PYSPARK_PYTHON", f"{sys.base_prefix}/bin/python3")
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    for line in said.stdout.splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    warm_up(ready_spark(load_settings()))


@pytest.mark.soak
def test_a_warehouse_that_workers_see_elsewhere_is_refused_before_anything_is_applied(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFCDC_WAREHOUSE", "/proc/self/cwd/warehouse")  # of each process another one
    with pytest.raises(WorkersNotReady, match=r"does not reach the warehouse /proc/self/cwd/warehouse .*share"):
        ready_spark(load_settings())
    assert list((tmp_path / "warehouse").iterdir()) == []


@pytest.mark.soak
def test_a_session_that_the_cluster_has_ended_is_followed_by_another(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    first = ready_spark(load_settings())
    assert not is_lost(first)
    first.sparkContext._jsc.sc().stop()  # what Spark does itself when its master gives the application up
    assert is_lost(first)
    second = ready_spark(load_settings())
    assert (second is first, is_lost(second)) == (False, False)
    warm_up(second)


def test_workers_without_credentials_apply_to_tables_in_an_object_store(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [name for name in cluster.of_workers if name.startswith("AWS_")]
    with s3_server() as store:
        log_in(store.environment, monkeypatch)
        monkeypatch.setenv("SFCDC_WAREHOUSE", f"s3://{BUCKET}/warehouse")
        entities = Entities(Warehouse(f"s3://{BUCKET}/warehouse"), ("First__c", "Second__c"), 5)
        entities.day_zero()
        entities.land(2)
        wanted = [ToApply(name, CHANNEL) for name in entities.names]
        found = apply_entities(run_on(entities.warehouse, spark=lambda: ready_spark(load_settings())), wanted)
        assert [each for each in found.values() if isinstance(each, Exception)] == []
        assert entities.differences() == []


def change_all(pipeline: EmulatedPipeline, value: str) -> None:
    """A wide batch: each record in a transaction of its own, text values too, some deleted, of those that have no
    children: the oldest third."""
    org = pipeline.org
    for entity in ENTITIES:
        for number, record_id in enumerate(ids(org, entity)):
            with org.transaction() as work:
                if number in (9, 25, 41):
                    work.delete(entity, record_id)
                else:
                    work.update(entity, record_id, {"Description": f"{value}\nsecond line of {number}\n" * 3})


def test_two_workers_share_the_work_and_the_loss_of_one_in_mid_apply_loses_nothing(
    make_pipeline: Callable[..., EmulatedPipeline], cluster: SparkCluster, spark: SparkSession
) -> None:
    pipeline = make_pipeline(*ENTITIES, records=150)
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    of_snapshot = set(shared(cluster))
    assert of_snapshot, cluster.tasks_by_executor()

    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)  # a gap, which is read back
    change_all(pipeline, "first")
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    assert set(shared(cluster)) - of_snapshot, cluster.tasks_by_executor()

    change_all(pipeline, "second")
    with lost_while_at_work(spark, lambda: cluster.kill(0)):
        pipeline.sync()
    pipeline.assert_equal_to_the_org()
    assert cluster.workers[0].poll() is not None

    before = set(cluster.executors()[1])
    with lost_while_at_work(spark, lambda: cluster.kill_executors(1)):
        assert pipeline.launch("snapshot", *ENTITIES).success
        pipeline.sync()
    pipeline.assert_equal_to_the_org()
    assert before - set(cluster.executors()[1])
    versions = {entity: len(pipeline.all_versions(entity)) for entity in ENTITIES}
    assert all(count > 2 * 150 for count in versions.values()), versions


def shared(cluster: SparkCluster) -> list[tuple[str, int]]:
    """Stages of which both executors ended tasks."""
    return [stage for stage, of in cluster.tasks_by_executor().items() if len(of) == 2]


class lost_while_at_work:  # noqa: N801 - read as a phrase
    """Something is killed as soon as a stage has tasks at work."""

    def __init__(self, spark: SparkSession, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._tracker = spark.sparkContext.statusTracker()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._is_over = threading.Event()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        deadline = time.monotonic() + BOUND_SECONDS
        while not self._is_over.is_set() and time.monotonic() < deadline:
            stages = [self._tracker.getStageInfo(each) for each in self._tracker.getActiveStageIds()]
            if any(stage is not None and stage.numActiveTasks for stage in stages):
                self._kill()
                return
            time.sleep(0.01)
