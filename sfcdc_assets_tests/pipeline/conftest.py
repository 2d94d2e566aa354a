"""One Spark for all tests, because a JVM takes seconds; an org, a warehouse and a Dagster instance for each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.config import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import (
    SPARK_OF_TESTS,
    make_pipeline,
    new_org,
    no_settings_but_the_tests_own,
    opened_org,
    served,
)

__all__ = ["make_pipeline", "no_settings_but_the_tests_own"]


ENDED_AT = "ended_at_ms"
"""A file in the folder of day zero. Its clock has jumped, and no clock goes back."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The project's own session, started once."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SPARK_OF_TESTS.items():
            patch.setenv(name, value)
        session = spark_session(load_settings())
    yield session
    session.stop()


@pytest.fixture(scope="session")
def day_zero(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an org of two objects and a warehouse that equals it; tests work on copies, never on it."""
    folder = tmp_path_factory.mktemp("day_zero") / "org"
    org = new_org(folder, ("Account", "Contact"), records=30)
    with pytest.MonkeyPatch.context() as patch, served(org, folder, patch) as pipeline:
        for name, value in SPARK_OF_TESTS.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        pipeline.sync()
        (folder / ENDED_AT).write_text(str(org.clock()))
    return folder


@pytest.fixture
def pipeline(spark: SparkSession, make_pipeline: Callable[..., EmulatedPipeline]) -> EmulatedPipeline:
    """A pipeline over two objects that was never run."""
    return make_pipeline("Account", "Contact")


@pytest.fixture
def synced(day_zero: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A pipeline over two objects whose tables equal the org; the Dagster instance is new and knows nothing of it."""
    folder = tmp_path / "org"
    shutil.copytree(day_zero, folder)
    now = int((folder / ENDED_AT).read_text())
    with served(opened_org(folder, ("Account", "Contact"), now=now), folder, monkeypatch) as pipeline:
        yield pipeline
