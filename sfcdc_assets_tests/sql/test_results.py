"""Results for people: side by side where they fit, one under the other where they do not; nothing is lost in a pipe."""

from __future__ import annotations

import io
from collections.abc import Iterator

import duckdb
import pytest

from sfcdc_assets.sql.results import ROWS_SHOWN, Format, write


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def table(connection: duckdb.DuckDBPyConnection, query: str, width: int | None) -> str:
    out = io.StringIO()
    write(connection.execute(query), Format.TABLE, out, width)
    return out.getvalue()


def test_columns_stand_side_by_side_as_wide_as_their_characters(connection: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT * FROM (VALUES ('東京', 1.5), ('Graz', NULL)) t(city, share)"
    assert table(connection, query, 80) == "city  share\n────  ─────\n東京  1.5\nGraz  NULL\n(2 rows)\n"


def test_rows_that_do_not_fit_stand_one_under_the_other(connection: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT 'a' AS first, 'b' AS the_second_one, TIMESTAMPTZ '2026-11-20 12:00:00.5+00' AS since"
    lines = table(connection, query, 30).splitlines()
    assert lines[0].startswith("── row 1 ──")
    assert lines[1:] == ["first           a", "the_second_one  b", "since           2026-11-20 12:00:00.500", "(1 row)"]


def test_long_values_are_cut_on_a_terminal_only(connection: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT repeat('long\ntext ', 30) AS text"
    assert "…" in table(connection, query, 200)
    assert table(connection, query, None).count("long text") == 30


def test_a_table_says_when_it_does_not_show_all(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO()
    assert not write(connection.execute(f"SELECT range FROM range({ROWS_SHOWN + 1})"), Format.TABLE, out, None)
    assert write(connection.execute(f"SELECT range FROM range({ROWS_SHOWN})"), Format.TABLE, out, None)
