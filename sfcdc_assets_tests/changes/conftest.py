"""A copied org of two objects; batches are applied in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, new_org, only_settings_of_tests, served

DOOMED = "Doomed"
"""Accounts of this name are referred to by nothing, so that they can be deleted."""


@pytest.fixture(scope="module")
def org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """An org of two objects, copied: tests ask since a token that they take at their beginning."""
    folder = tmp_path_factory.mktemp("changes") / "org"
    made = new_org(folder, ("Account", "Contact"), records=8)
    with made.transaction() as work:
        for number in range(12):
            work.create("Account", {"Name": f"{DOOMED} {number}"})
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.setenv("SFCDC_VISIBILITY_SECONDS", "0.2")
        patch.chdir(folder)
        with served(made, folder, patch) as pipeline:
            pipeline.sync()
            yield pipeline
