"""Rows of a bulk page that do not convert: each is its own record's, unless it is the field of most of them."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from sfcdc_assets.salesforce.bulk_csv import FEW_UNREADABLE_ROWS, CsvPage, read_page
from sfcdc_assets.salesforce.errors import RowsUnreadable

SCHEMA = pa.schema({"Id": pa.string(), "Name": pa.string(), "Size": pa.int32()})


def page(rows: int, unreadable: range) -> CsvPage:
    """A page of so many rows; those with these numbers have a size that is none."""
    lines = [f'"{number:03}","of {number}","{"many" if number in unreadable else number}"' for number in range(rows)]
    return read_page(io.BytesIO("\n".join(['"Id","Name","Size"', *lines]).encode()), SCHEMA, "a page")


@pytest.mark.parametrize(("rows", "unreadable"), [(2_000, range(200, 900)), (FEW_UNREADABLE_ROWS, range(1_000))])
def test_every_row_that_converts_is_kept_however_many_others_do_not(rows: int, unreadable: range) -> None:
    found = page(rows, unreadable)
    bad = {f"{number:03}" for number in range(rows) if number in unreadable}
    assert found.unreadable.keys() == bad
    assert set(found.unreadable.values()) <= {"column Size holds a value that is no double"}
    kept = found.table.to_pylist()
    assert sorted(row["Id"] for row in kept) == sorted({f"{number:03}" for number in range(rows)} - bad)
    assert all(row["Size"] == int(row["Id"]) for row in kept)


def test_a_field_that_most_rows_cannot_be_read_for_is_named_with_what_to_do() -> None:
    with pytest.raises(
        RowsUnreadable, match=r"more than 300 of the 600 rows .*column Size .* by SFCDC_EXCLUDE"
    ) as found:
        page(600, range(50, 400))
    assert "many" not in str(found.value)
