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


def test_away_from_a_terminal_many_columns_stand_one_under_the_other_and_values_stay_whole(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """As psql's automatic expanded form: `SELECT *` of an entity was thousands of characters wide."""
    columns = ", ".join(f"'value {number}' AS column_{number}" for number in range(100))
    lines = table(connection, f"SELECT {columns}, repeat('long ', 90) AS text FROM range(2)", None).splitlines()
    assert len(lines) == 2 * 102
    assert sorted(map(len, lines))[-3] < 40, "all but the two long values"
    assert lines[2].split() == ["column_1", "value", "1"]
    assert sum(line.count("long") for line in lines) == 180
    narrow = table(connection, "SELECT 1 AS a, 2 AS b", None)
    assert narrow == "a  b\n─  ─\n1  2\n"


def test_a_single_column_is_a_column_however_wide(connection: duckdb.DuckDBPyConnection) -> None:
    assert table(connection, "SELECT repeat('x', 900) AS text", None).splitlines()[2] == "x" * 900


def test_a_table_says_when_it_does_not_show_all(connection: duckdb.DuckDBPyConnection) -> None:
    out = io.StringIO()
    assert not write(connection.execute(f"SELECT range FROM range({ROWS_SHOWN + 1})"), Format.TABLE, out, None)
    assert write(connection.execute(f"SELECT range FROM range({ROWS_SHOWN})"), Format.TABLE, out, None)
