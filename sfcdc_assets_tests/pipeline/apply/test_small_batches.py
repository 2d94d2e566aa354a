"""A small batch writes a small part of a large table again, and the rows are those of the org."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.key_ranges import key_ranges
from sfcdc_assets_tests.pipeline.busy_warehouse import busy_warehouse
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows

__all__ = ["no_settings_but_the_tests_own"]

PIECE = 20_000


def test_batches_of_few_changes_write_little_of_a_table_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "PIECE_BYTES", PIECE)
    with busy_warehouse(tmp_path, monkeypatch, 600, ["Task"], changes=2) as busy:
        for _ in range(4):
            busy.batch()
        before, living = busy.on_disk()["current_state", "data"], busy.living_bytes
        assert living > 5 * PIECE
        for _ in range(6):
            busy.batch()
        files, size = (now - then for now, then in zip(busy.on_disk()["current_state", "data"], before, strict=True))
        assert files <= 6 * 2 * 2, "a piece for each change, or two where it grew"
        assert size < 6 * living / 2
        busy.settle()
        table = DeltaTable(busy.stream.warehouse.uri("current_state/Task"))
        rows = {row["Id"]: row for row in pa.table(table.scan()).to_pylist()}
        assert len(rows) == table.count()
        assert_same_rows("Task", rows, expected_rows(busy.stream.org, "Task"))
