"""What a page of CSV says is what is read, wherever its values have line breaks and wherever blocks end."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.rest.csv_form import csv_line
from sfcdc_assets.salesforce import bulk_csv
from sfcdc_assets.salesforce.bulk_csv import read_page
from sfcdc_assets.salesforce.errors import UnexpectedAnswer

SCHEMA = pa.schema([("Id", pa.string()), ("Description", pa.string())])
TEXTS = st.text(alphabet='\r\n",ä x', max_size=12)


def page(descriptions: list[str], line_ending: str = "\n") -> bytes:
    rows = [("Id", "Description"), *((f"{number:018}", text) for number, text in enumerate(descriptions))]
    return "".join(csv_line(row, ",") + line_ending for row in rows).encode()


def read(written: bytes) -> list[str | None]:
    table = read_page(io.BytesIO(written), SCHEMA, "url").table
    assert table["Id"].to_pylist() == [f"{number:018}" for number in range(table.num_rows)]
    found: list[str | None] = table["Description"].to_pylist()
    return found


@pytest.mark.parametrize("block", range(20, 120))
def test_a_line_break_of_two_characters_within_a_value_is_read_wherever_a_block_ends(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow loses the second one where a block of its own ends between them."""
    monkeypatch.setattr(bulk_csv, "_BLOCK_BYTES", block)
    descriptions = ["first\r\nsecond\r\n\r\n-", "\r\n", 'said "\r\n"\r\n'] * 3
    assert read(page(descriptions)) == descriptions


@given(st.lists(TEXTS, max_size=8), st.integers(1, 200), st.sampled_from(["\n", "\r\n"]))
def test_any_values_are_read_in_blocks_of_any_size(descriptions: list[str], block: int, line_ending: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_csv, "_BLOCK_BYTES", block)
        assert read(page(descriptions, line_ending)) == [text or None for text in descriptions]


def test_a_row_that_is_longer_than_a_block_is_read() -> None:
    long = "0123456789\r\n" * (bulk_csv._BLOCK_BYTES // 10)
    assert read(page(["short", long, "short"])) == ["short", long, "short"]


@pytest.mark.parametrize(
    "row", ["", '"001","a","b"\n', '"001","a","\xff"\n'], ids=["no row", "a row", "a row to repair"]
)
def test_a_page_that_names_a_column_twice_is_refused_however_it_is_written(row: str) -> None:
    with pytest.raises(UnexpectedAnswer, match="names a column more than once: Id"):
        read_page(io.BytesIO(f'"Id","Description","ID"\n{row}'.encode("latin-1")), SCHEMA, "url")
