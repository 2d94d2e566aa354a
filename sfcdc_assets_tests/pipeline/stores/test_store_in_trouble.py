"""A warehouse in an object store that refuses, or answers wrongly, in the middle of a run; that files are lost from; or
that the tables were moved to: all goes on from where it was, and nothing is there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyarrow import fs

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.lake.object_store import BUCKET, EXPIRED, Failure, ObjectStore, object_store
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of
from sfcdc_assets_tests.store_login import log_in

DONE_AND_NOT_SAID = Failure(500, "InternalError", "We encountered an internal error.", "PUT|POST|DELETE", is_done=True)
"""Who asks again finds that another one was first."""
IN_MID_RUN = [(EXPIRED, None, after) for after in (20, 70, 120, 170)] + [
    (DONE_AND_NOT_SAID, 1, after) for after in (1, 4, 7, 10)
]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store() as served:
        log_in(served.environment, monkeypatch)
        yield served


@pytest.fixture
def quiet_pipeline(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch, warehouse=f"s3://{BUCKET}/warehouse") as opened:
        opened.sync()
        yield opened


@pytest.mark.slow
def test_whatever_a_store_refuses_in_mid_run_the_next_one_goes_on_and_lands_nothing_twice(
    store: ObjectStore, quiet_pipeline: QuietPipeline
) -> None:
    for number, (failure, times, after) in enumerate(IN_MID_RUN):
        for record_id in quiet_pipeline.ids()[:2]:
            quiet_pipeline.update(record_id, Name=f"change {number}", Description=f"the text of {number}")
        with store.failing(failure, times, after), suppress(SfcdcError):
            quiet_pipeline.catch_up()
        quiet_pipeline.catch_up()
        quiet_pipeline.assert_equal()
    landed = sorted(row["position"] for row in rows_of(quiet_pipeline.warehouse, "raw_events"))
    assert landed == list(range(landed[0], landed[0] + 2 * len(IN_MID_RUN)))


@pytest.mark.slow
def test_tables_that_are_copied_to_a_store_go_on_there_and_a_file_that_is_lost_is_named_and_mended(
    store: ObjectStore, make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", records=5)
    pipeline.sync()
    moved = Warehouse(f"s3://{BUCKET}/moved here/warehouse/")
    fs.copy_files(str(pipeline.warehouse), "", fs.LocalFileSystem(), moved.filesystem(""))
    monkeypatch.setenv("SFCDC_WAREHOUSE", moved.root)

    def is_equal(text: str) -> None:
        with pipeline.org.transaction() as change:
            change.update("Account", ids(pipeline.org, "Account")[0], {"Name": text})
        pipeline.sync()
        rows = {row["Id"]: row for row in rows_of(moved, "current_state/Account")}
        assert_same_rows("Account", rows, expected_rows(pipeline.org, "Account"))

    delivered = pipeline.server.meter.total
    is_equal("changed after the move")
    assert pipeline.server.meter.total == delivered + 1, "the stream goes on from its checkpoint"
    files = moved.filesystem("current_state/Account")
    found = files.get_file_info(fs.FileSelector("", recursive=True))
    for lost in (info.path for info in found if info.path.endswith(".parquet")):
        files.delete_file(lost)
    status = sfcdc("status", "--json")
    assert status.exit_code == 1
    assert "`sfcdc rebuild --entity Account` builds it again" in status.stdout
    assert sfcdc("rebuild", "--entity", "Account").exit_code == 0
    is_equal("changed after the rebuild")
