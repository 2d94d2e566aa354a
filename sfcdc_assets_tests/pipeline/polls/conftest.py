"""Three objects that were copied and are polled, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.polls.polled_org import (
    SEED,
    settings_of_polls,
)
from sfcdc_assets_tests.pipeline.story import go_on, story


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Three objects that were copied, and are polled."""
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("polls"), ["Account"], records=6, seed=SEED) as pipeline:
        with pytest.MonkeyPatch.context() as patch:
            settings_of_polls(patch)
            pipeline.sync()
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    """The org when all of its objects are due."""
    go_on(shared, monkeypatch)
    settings_of_polls(monkeypatch)
    shared.org.clock.sleep(4000)
    return shared
