"""A record that one transaction makes and deletes: the org has it in its recycle bin, and raised no event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import QuietPipeline, quiet


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as opened:
        opened.sync()
        yield opened


def test_it_is_in_no_table_until_a_copy_finds_it_in_the_recycle_bin(pipeline: QuietPipeline) -> None:
    with pipeline.org.transaction() as work:
        never_alive = work.create("Account", {"Name": "made and deleted at once"})
        work.delete("Account", never_alive)
    pipeline.update(pipeline.ids()[0], Name="changed afterwards")
    pipeline.catch_up()
    pipeline.assert_equal()
    assert never_alive not in pipeline.rows()
    pipeline.snapshot()
    pipeline.catch_up()
    row = pipeline.rows()[never_alive]
    assert (row["_is_deleted"], row["Name"]) == (True, "made and deleted at once")
