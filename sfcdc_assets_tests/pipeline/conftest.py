"""An org, a warehouse and a Dagster instance for each test; Spark only for the modules whose tests ask for it.

A job of Spark takes a second, whatever it does, and a JVM six. So batches are applied in this process by the functions
of Spark's tasks, unless a test of the module asks for the fixture `spark`; then all of its tests have jobs of Spark.
With `--with-spark` all tests have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import (
    batches_in_this_process,
    copied,
    keep,
    make_pipeline,
    no_settings_but_the_tests_own,
    only_settings_of_tests,
)
from sfcdc_assets_tests.pipeline.story import go_on
from sfcdc_assets_tests.spark.this_process import end_spark

__all__ = ["make_pipeline", "no_settings_but_the_tests_own"]


@pytest.fixture(scope="session")
def spark_of_the_process() -> Iterator[None]:
    """Ends with the process's last test, whoever started it."""
    yield
    end_spark()


@pytest.fixture(scope="module")
def spark(spark_of_the_process: None) -> SparkSession:
    """The project's own session: the one that the process has, or a new one where a file before has ended it."""
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        return spark_session(load_settings())


@pytest.fixture(scope="module", autouse=True)
def applied_by(request: pytest.FixtureRequest) -> Iterator[None]:
    """Who applies the batches of a module's tests: jobs of Spark, whose session starts when one is needed, or this
    process."""
    of_this_module = (item for item in request.session.items if item.path == request.path)
    asked_for = any("spark" in getattr(item, "fixturenames", ()) for item in of_this_module)
    if asked_for or request.config.getoption("--with-spark"):
        yield
    else:
        with batches_in_this_process():
            yield


@pytest.fixture(scope="session")
def day_zero(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an org of two objects and a warehouse that equals it; tests work on copies, never on it."""
    return keep(tmp_path_factory.mktemp("day_zero") / "org", ("Account", "Contact"), records=30)


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline]) -> EmulatedPipeline:
    """A pipeline over two objects that was never run."""
    return make_pipeline("Account", "Contact")


@pytest.fixture
def synced(day_zero: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A pipeline over two objects whose tables equal the org; the Dagster instance is new and knows nothing of it."""
    with copied(day_zero, tmp_path / "org", monkeypatch) as pipeline:
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    """The org and the tables of a module that tells a story in its fixture `shared`, equal when a test begins."""
    go_on(shared, monkeypatch)
    return shared
