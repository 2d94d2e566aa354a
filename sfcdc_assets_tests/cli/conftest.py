"""Tests of the command run on the pipeline's fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import copied, keep, make_pipeline, no_settings_but_the_tests_own

__all__ = ["make_pipeline", "no_settings_but_the_tests_own"]


@pytest.fixture(scope="session")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(tmp_path_factory.mktemp("first_day") / "org", ("Account",), records=3)


@pytest.fixture
def synced(first_day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """One whose tables equal the org; no process that runs now knows of it."""
    with copied(first_day, tmp_path / "org", monkeypatch) as pipeline:
        yield pipeline
