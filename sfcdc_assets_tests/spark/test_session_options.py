"""Options of Spark: what a cluster manager needs reaches Spark as it was written, and nothing of a local Spark does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark import SparkConf

from sfcdc_assets.doctor.machine import java
from sfcdc_assets.settings.settings import Settings, load_settings
from sfcdc_assets.spark.class_archive import with_archive
from sfcdc_assets.spark.cluster import spark_address
from sfcdc_assets.spark.session import spark_options
from sfcdc_assets.spark.workers import WorkersNotReady
from sfcdc_assets_tests.environment import without_settings

YARN = {
    "spark.yarn.queue": "data",
    "spark.executor.instances": "4",
    "spark.executor.memoryOverhead": "3g",
    "spark.yarn.appMasterEnv.JAVA_HOME": "/opt/java 17",
}
KUBERNETES = {
    "spark.kubernetes.namespace": "spark",
    "spark.kubernetes.container.image": "registry.example.com/sfcdc:0.1.0",
    "spark.kubernetes.executor.podTemplateFile": "/etc/sfcdc/pod.yaml",
    "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
    "spark.kubernetes.driver.pod.name": "run-1",
    "spark.driver.host": "10.1.2.3",
    "spark.driver.bindAddress": "0.0.0.0",
    "spark.archives": "/opt/workers.zip#sfcdc",
    "spark.executorEnv.PYTHONPATH": "sfcdc",
}


@pytest.fixture(autouse=True)
def of_this_test_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("master", "options"),
    [("yarn", YARN), ("k8s://https://10.0.0.1:443", KUBERNETES)],
    ids=["YARN", "Kubernetes"],
)
@pytest.mark.parametrize("written_in", ["environment", "dotenv"])
def test_options_of_a_cluster_manager_reach_spark_unchanged(
    master: str, options: dict[str, str], written_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"SFCDC_SPARK_MASTER": master, **{f"SFCDC_SPARK_CONF_{name}": value for name, value in options.items()}}
    if written_in == "dotenv":
        Path(".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    else:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
    found = with_archive(spark_options(load_settings()))
    conf = dict(SparkConf(loadDefaults=False).setAll(list(found.items())).getAll())
    assert conf["spark.master"] == master
    assert {name: conf[name] for name in options} == options


def test_addresses_of_this_machine_alone_are_for_a_local_spark() -> None:
    assert spark_options(Settings())["spark.driver.host"] == "127.0.0.1"
    found = spark_options(Settings(spark_master="spark://master:7077"))
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.extraJavaOptions"} & set(found)


def test_jvms_of_a_cluster_start_quickly_and_keep_the_options_that_its_users_and_administrators_give_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SFCDC_SPARK_CONF_spark.executor.extraJavaOptions", "-XX:+UseG1GC")
    found = spark_options(Settings(spark_master="yarn"))
    assert found["spark.executor.extraJavaOptions"] == "-XX:+UseG1GC"
    for process in ("driver", "executor"):
        assert found[f"spark.{process}.defaultJavaOptions"] == "-XX:TieredStopAtLevel=1"  # no collector beside theirs


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ({"spark.cores.max": "8"}, 8),
        ({"spark.executor.instances": "4", "spark.executor.cores": "2"}, 8),
        ({"spark.executor.instances": "4"}, 4),
        ({}, os.cpu_count() or 2),
        ({"spark.cores.max": "many"}, os.cpu_count() or 2),
    ],
)
def test_a_session_that_says_how_many_cores_it_takes_has_three_tasks_for_each(
    options: dict[str, str], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in options.items():
        monkeypatch.setenv(f"SFCDC_SPARK_CONF_{name}", value)
    assert spark_options(Settings(spark_master="spark://master:7077"))["spark.sql.shuffle.partitions"] == str(3 * cores)


def test_a_client_of_spark_connect_sets_what_a_client_may_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_SPARK_CONF_SPARK__SQL__SHUFFLE__PARTITIONS", "48")
    found = spark_options(Settings(spark_remote=SecretStr("sc://server:15002")))
    assert found.pop("spark.remote") == "sc://server:15002"
    assert found["spark.sql.shuffle.partitions"] == "48"
    assert [name for name in found if not name.startswith("spark.sql.")] == []


def test_the_token_in_a_url_of_spark_connect_is_in_no_message() -> None:
    url = "sc://user@host.example.com:443/;token=dapi-secret;x-databricks-cluster-id=0301-1"
    settings = Settings(spark_remote=SecretStr(url))
    assert spark_address(settings) == "sc://host.example.com:443"
    assert spark_options(settings)["spark.remote"] == url
    shown = [
        repr(settings),
        java(settings).found,
        str(WorkersNotReady(spark_address(settings), "a reason", "a remedy")),
    ]
    assert not [each for each in shown if "dapi-secret" in each]
