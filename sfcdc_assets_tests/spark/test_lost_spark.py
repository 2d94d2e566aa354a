"""A Spark that ends while it is wanted: a person is told in one sentence, and work goes on with another one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sfcdc_assets.cli.terminal.children import descendants
from sfcdc_assets.orchestration import resources as resource
from sfcdc_assets.orchestration.resources import SparkResource
from sfcdc_assets.spark.session import forget_ended
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.spark.standing_spark import standing_spark


def test_a_run_that_goes_on_with_another_spark_says_so_in_its_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = SimpleNamespace(is_lost=False, stop=list), SimpleNamespace(is_lost=False, stop=list)
    given = iter([first, second])
    monkeypatch.setattr(resource, "ready_spark", lambda settings: next(given))

    @dg.op
    def work(spark: SparkResource) -> None:
        assert spark.spark_session is first
        first.is_lost = True
        assert spark.spark_session is second
        assert spark.spark_session is second

    @dg.job(resource_defs={"spark": SparkResource()})
    def job() -> None:
        work()

    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance)
        said = [entry.user_message for entry in instance.all_logs(done.run_id) if entry.level >= 30]
    assert [each for each in said if "The Spark of this run has ended" in each] == [
        "The Spark of this run has ended. The run goes on with a standing one; what was committed stays."
    ]


def test_a_spark_of_this_process_that_cannot_even_be_stopped_leaves_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise ConnectionResetError

    jvm = SimpleNamespace(System=SimpleNamespace(currentTimeMillis=refuse))
    lost = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None), stop=refuse, _jvm=jvm)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", lost)
    monkeypatch.setattr(SparkSession, "_activeSession", lost)
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, lost)
    forget_ended()
    assert (SparkSession._instantiatedSession, SparkContext._active_spark_context) == (None, None)
    assert SparkContext._gateway is None


@pytest.mark.slow
def test_a_standing_spark_whose_java_process_is_killed_ends_with_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "spark.json"
    with standing_spark(path) as started:
        (java,) = (
            pid
            for pid in descendants(started.process.pid)
            if b"/bin/java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        )
        os.kill(java, signal.SIGKILL)
        assert started.process.wait(BOUND_SECONDS) == 1
    said = path.with_suffix(".log").read_text()
    assert said.splitlines()[-1].startswith(f"sfcdc: The standing Spark of {path} has ended by itself.")
    assert "Traceback" not in said
    assert not path.exists()
