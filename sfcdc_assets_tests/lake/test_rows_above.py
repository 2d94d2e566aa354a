"""Few rows of a table by an integer column: what a scan gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.lake.delta import table_reads
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

SCHEMA = pa.schema([("Id", pa.string()), ("Names", pa.list_(pa.string())), ("_batch", pa.int64())])


def rows(*batches: int | None) -> pa.Table:
    found = [{"Id": f"r{number}", "Names": ["a"], "_batch": number} for number in batches]
    return pa.Table.from_pylist(found, schema=SCHEMA)


@pytest.mark.parametrize(
    ("name", "bytes_"), [("HELD_BYTES", 0), ("READ_TOGETHER_BYTES", 0), ("READ_TOGETHER_BYTES", 8 * 1024**2)]
)
def test_rows_above_a_number_are_those_of_a_scan_however_many_files_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bytes_: int
) -> None:
    monkeypatch.setattr(table_reads, name, bytes_)
    table = Table.open_or_create(Warehouse(str(tmp_path)), "current_state/A", SCHEMA, statistics_on=["_batch"])
    assert table.rows_above("_batch", 0, ["Id"]).num_rows == 0
    for batches in ((1, 2), (3, None), (2, 5)):
        table.append(rows(*batches), {}, {})
    table.add_columns([pa.field("Came", pa.float64())])
    table.append(rows(4, 6).append_column("Came", pa.array([1.0, None])).select(table.schema.names), {}, {})
    for number in (0, 2, 5):
        found = table.rows_above("_batch", number, ["Came", "Id", "Names"])
        assert found.schema.names == ["Came", "Id", "Names"]
        assert found.sort_by("Id").equals(table.scan(["Came", "Id", "Names"], f"_batch > {number}").sort_by("Id"))
