"""The warehouse's object store does not do: whatever is started refuses before it writes a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyarrow import fs

from sfcdc_assets.lake.errors import CommitsNotAtomic, StoreRefused
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.lake.object_store import BUCKET, object_store
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.store_login import forget_logins

ROOT = f"s3://{BUCKET}/warehouse"


@pytest.fixture
def pipeline(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmulatedPipeline]:
    """Over a store that replaces objects whatever it is asked."""
    made = make_pipeline("Account", records=3)
    forget_logins(monkeypatch)
    with object_store("--unconditional") as store:
        for name, value in {**store.environment, "SFCDC_WAREHOUSE": ROOT}.items():
            monkeypatch.setenv(name, value)
        yield made
        found = Warehouse(ROOT).filesystem("").get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        assert [info.path for info in found] == []
    assert made.server.meter.total == 0, "no delivery was paid for"


def test_a_command_refuses_a_store_that_would_lose_commits(pipeline: EmulatedPipeline) -> None:
    assert "Use a store with conditional writes" in refusal(sfcdc("sync"))


def test_a_tick_and_a_run_refuse_it_too(pipeline: EmulatedPipeline) -> None:
    with pytest.raises(CommitsNotAtomic):
        pipeline.sensor_tick()
    run = pipeline.launch("sync")
    assert not run.success
    assert "Use a store with conditional writes" in pipeline.failure(run)


def test_credentials_that_the_store_does_not_know_are_refused_everywhere(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-of-mine")
        patch.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
        with pytest.raises(StoreRefused):
            pipeline.sensor_tick()
        for command in (("sync",), ("status",), ("verify",)):
            said = refusal(sfcdc(*command))
            assert "Amazon S3 refuses the credentials" in said
            assert "s3cret-of-mine" not in said
