"""An org with formula fields whose objects were copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import (
    batches_in_this_process,
    copied,
    keep_clock,
    new_org,
    only_settings_of_tests,
    served,
)
from sfcdc_assets_tests.pipeline.formulas.formulas_of_an_org import (
    FORMULAS,
    settings_of_formulas,
)


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An org and its warehouse: opportunities raise events, their accounts are polled, no formula was read yet."""
    folder = tmp_path_factory.mktemp("formulas") / "org"
    org = new_org(folder, ["Opportunity"], 8)
    for entity, formulas in FORMULAS.items():
        for name, options in formulas.items():
            org.setup.add_field(entity, name, options)
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            patch.setenv("SFCDC_POLL", "Account")
            pipeline.sync()
            keep_clock(org, folder)
    return folder


@pytest.fixture
def pipeline(first_day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A copy of it; formulas are read from now on."""
    with copied(first_day, tmp_path / "org", monkeypatch) as made:
        settings_of_formulas(monkeypatch)
        yield made
