"""The deployment's Spark cluster, outside of containers: who has not its secret, or does not encrypt, is kept out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.deploy.deployment import services
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.pipeline.failures.killed_sync import QUICK_JVM
from sfcdc_assets_tests.pipeline.spark.spark_cluster import SparkCluster, spark_cluster

pytestmark = pytest.mark.slow

SECRET = "the cluster's own / 5u3X+"
SECONDS = 400.0
"""Spark gives up a master after a minute, of a machine that is not busy."""
OPTION = "SFCDC_SPARK_CONF_"
COUNTED = """
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
session = spark_session(load_settings())
rows = session.range(1000).repartition(4).rdd.map(lambda row: row.id % 7)
print("counted", rows.distinct().count())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and a worker with the options of the Compose file, and a secret as the entry point gives it to them."""
    reported = services()["spark-worker"]["environment"]
    environment = {"SPARK_DAEMON_JAVA_OPTS": reported["SPARK_DAEMON_JAVA_OPTS"], "_SPARK_AUTH_SECRET": SECRET}
    with spark_cluster(tmp_path_factory.mktemp("cluster") / "spark", 1, environment) as started:
        yield started


def driver(cluster: SparkCluster, folder: Path, secret: str, **changed: str) -> subprocess.Popen[str]:
    """A run's process with the settings of the Compose file's code server."""
    file = folder / f"secret of {len(list(folder.iterdir()))}"
    file.write_text(f"{secret}\n")
    reported = {name: value for name, value in services()["code"]["environment"].items() if name.startswith(OPTION)}
    mine = {name: value for name, value in cluster.environment.items() if "eventLog" not in name}
    settings = {
        **{name: value for name, value in reported.items() if "DRIVER__HOST" not in name},
        **mine,
        f"{OPTION}SPARK__AUTHENTICATE__SECRET_FILE": str(file),
        f"{OPTION}SPARK__CORES__MAX": "1",
        f"{OPTION}spark.driver.extraJavaOptions": QUICK_JVM,
        **changed,
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "SPARK_"))}
    return subprocess.Popen(
        [sys.executable, "-c", COUNTED],
        env={**kept, **settings, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def commands() -> str:
    return subprocess.run(["ps", "-ww", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout


def test_a_run_with_the_secret_is_served_and_the_secret_stands_on_no_command_line(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    process = driver(cluster, tmp_path, SECRET)
    seen: set[str] = set()

    def ended() -> bool:
        seen.update(commands().splitlines())
        return process.poll() is not None

    eventually(ended, "the run", seconds=SECONDS)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read().splitlines() == ["counted 7"], process.stderr.read()[-3000:]
    assert any("CoarseGrainedExecutorBackend" in line for line in seen)
    assert not [line for line in seen if SECRET in line]
    logs = [path for path in cluster.folder.rglob("*") if path.is_file()]
    assert not [path for path in logs if SECRET.encode() in path.read_bytes()]


def test_one_with_another_secret_and_one_that_does_not_encrypt_are_refused(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    refused = {
        "another secret": driver(cluster, tmp_path, "another"),
        "no encryption": driver(cluster, tmp_path, SECRET, **{f"{OPTION}SPARK__NETWORK__CRYPTO__ENABLED": "false"}),
        "no secret": driver(cluster, tmp_path, SECRET, **{f"{OPTION}SPARK__AUTHENTICATE": "false"}),
    }
    for why, process in refused.items():
        said, wrong = process.communicate(timeout=SECONDS)
        assert (process.returncode != 0, said) == (True, ""), why
        assert SECRET not in wrong
