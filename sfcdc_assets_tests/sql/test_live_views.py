"""Views that other programs hold open: live ones follow the newest cut, pinned ones are swapped beneath nobody."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.consistent_cuts import cuts
from sfcdc_assets.lake.tables.open_cut import OpenCut, cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.cut_connection import AskedTables
from sfcdc_assets.sql.cut_links import FILES, GRACE, NOTED_BEFORE
from sfcdc_assets.sql.errors import FileNotWritten
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.views_file import write_live_views, write_views
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.sql.conftest import ENTITIES, Asked
from sfcdc_assets_tests.sql.small_warehouse import add_records, note_cut, small_warehouse, tables_of

pytestmark = [pytest.mark.usefixtures("tables_of_the_org"), pytest.mark.slow]
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def newest(asked: Asked) -> TablesOfCuts:
    return TablesOfCuts(Warehouse(asked.root), cuts_at(Warehouse(asked.root)))


def first(asked: Asked) -> TablesOfCuts:
    warehouse = Warehouse(asked.root)
    return TablesOfCuts(warehouse, [OpenCut(warehouse, cuts(warehouse)[-1])], newest=False)


def rows(connection: duckdb.DuckDBPyConnection, view: str) -> list[Any]:
    columns = connection.execute(f'SELECT * FROM "{view}" LIMIT 0').description
    ordered = ", ".join(f'"{column[0]}"' for column in sorted(columns, key=lambda each: each[0]))
    return connection.execute(f'SELECT {ordered} FROM "{view}" ORDER BY ALL').fetchall()


def test_live_views_show_what_the_pinned_ones_show(asked: Asked, tmp_path: Path) -> None:
    written = write_live_views(newest(asked), tmp_path / "live.duckdb", LONG_AGO)
    with (
        duckdb.connect(str(tmp_path / "live.duckdb"), read_only=True) as live,
        AskedTables(newest(asked)) as pinned,
    ):
        pinned.make_all()
        shown = {each for (each,) in live.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
        assert len(shown) == written
        assert shown >= {end.format(each.lower()) for each in ENTITIES for end in ("{}", "{}_history")}
        live.execute("SET TimeZone = 'UTC'")
        for view in shown - {"sfcdc_shown"}:
            assert rows(live, view) == rows(pinned.connection, view), view
        then = f"account_as_of('{asked.then.isoformat()}')"
        assert (
            live.execute(f"SELECT count(*) FROM {then}").fetchall()
            == pinned.connection.execute(f"SELECT count(*) FROM {then}").fetchall()
            != [(0,)]
        )


def test_a_connection_that_stays_open_follows_the_newest_cut(asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "live.duckdb"
    write_live_views(first(asked), file, LONG_AGO)
    with duckdb.connect(str(file), read_only=True) as live, AskedTables(newest(asked)) as pinned:
        pinned.make_all()
        before = rows(live, "account_history")
        assert before != rows(pinned.connection, "account_history")
        write_live_views(newest(asked), file, datetime.now(UTC) - NOTED_BEFORE)
        for view in ("account", "account_history", "case", "sfcdc_cut"):
            assert rows(live, view) == rows(pinned.connection, view)


class Life:
    """An entity that gets a record, or some, with each cut."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = small_warehouse(folder, ["Account"])
        self.position = 1

    def step(self, records: int = 1) -> TablesOfCuts:
        self.position += 1
        ids = (f"001{self.position:05}{number:010}" for number in range(records))
        add_records(self.warehouse, "Account", ids)
        note_cut(self.warehouse, ["Account"], self.position)
        return tables_of(self.warehouse)


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path / "warehouse")


COUNTS = "SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM account_history), position FROM sfcdc_cut"


def test_a_transaction_sees_one_cut_though_another_is_shown_meanwhile(life: Life, tmp_path: Path) -> None:
    file = tmp_path / "live.duckdb"
    write_live_views(life.step(), file, LONG_AGO)
    with duckdb.connect(str(file), read_only=True) as live:
        live.execute("BEGIN")
        assert live.execute(COUNTS).fetchall() == [(1, 1, 2)]
        write_live_views(life.step(), file, datetime.now(UTC))
        assert live.execute(COUNTS).fetchall() == [(1, 1, 2)]
        live.execute("COMMIT")


def test_a_cut_that_was_shown_stays_as_long_as_its_files_and_is_then_forgotten(life: Life, tmp_path: Path) -> None:
    file = tmp_path / "live.duckdb"
    links = tmp_path / "live.duckdb.cuts"

    def noted() -> list[int]:
        numbers: list[int] = pq.read_table(links / "shown.parquet")["number"].unique().to_pylist()
        return numbers

    write_live_views(life.step(), file, LONG_AGO)
    tables = life.step()
    write_live_views(tables, file, LONG_AGO)
    write_live_views(tables, file, LONG_AGO + GRACE / 2)
    assert noted() == [0, 1]
    assert len(set(links.glob("current_state/Account/*"))) == 2
    assert len(set(links.glob("history/Account/*"))) == 1
    write_live_views(life.step(), file, LONG_AGO + GRACE + 2 * NOTED_BEFORE)
    assert noted() == [1, 2]
    write_live_views(life.step(), file, LONG_AGO + 3 * GRACE)
    assert noted() == [2, 3]
    assert len(set(links.glob("current_state/Account/*"))) == 2
    with duckdb.connect(str(file), read_only=True) as live:
        assert live.execute(COUNTS).fetchall() == [(4, 4, 5)]


def test_a_transaction_that_is_older_than_what_is_kept_is_told_so(life: Life, tmp_path: Path) -> None:
    file = tmp_path / "live.duckdb"
    write_live_views(life.step(), file, LONG_AGO)
    with duckdb.connect(str(file), read_only=True) as live:
        live.execute("BEGIN")
        assert live.execute(COUNTS).fetchall() == [(1, 1, 2)]
        ahead = datetime.now(UTC) + timedelta(hours=1)
        write_live_views(life.step(), file, ahead)
        write_live_views(life.step(), file, ahead + 2 * GRACE)
        with pytest.raises(duckdb.InvalidInputException, match="Begin a new transaction"):
            live.execute("SELECT * FROM account").fetchall()


def test_an_object_store_has_no_links_to_follow(tmp_path: Path) -> None:
    tables = tables_of(small_warehouse(tmp_path / "warehouse", ["Account"]))
    tables.warehouse = Warehouse("s3://lake/org")
    with pytest.raises(FileNotWritten, match=r"is an object store\)\. Write pinned views after each sync"):
        write_live_views(tables, tmp_path / "live.duckdb", LONG_AGO)


def test_a_path_that_would_name_a_column_is_refused(life: Life, tmp_path: Path) -> None:
    (tmp_path / "Name=x").mkdir()
    with pytest.raises(FileNotWritten, match="has an equals sign"):
        write_live_views(life.step(), tmp_path / "Name=x" / "live.duckdb", LONG_AGO)


def test_the_command_writes_both_forms(life: Life, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", life.step().warehouse.root)
    files = tmp_path / "pinned.duckdb", tmp_path / "live.duckdb"
    result = sfcdc("views", "--duckdb", str(files[0]), "--live", str(files[1]))
    assert result.exit_code == 0, result.stderr
    assert "They follow each cut that is reported to them." in " ".join(result.stdout.split())
    for file in files:
        with duckdb.connect(str(file), read_only=True) as opened:
            assert opened.execute(COUNTS).fetchall() == [(1, 1, 2)]


def test_a_column_that_comes_later_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    warehouse, file = small_warehouse(tmp_path / "warehouse", ["Account"]), tmp_path / "live.duckdb"
    assert write_live_views(tables_of(warehouse), file, LONG_AGO)
    with duckdb.connect(str(file), read_only=True) as held:
        table = Table.open(warehouse, "current_state/Account")
        assert table is not None
        schema = pa.schema([*table.schema, ("Later__c", pa.string())])
        write_deltalake(
            warehouse.uri("current_state/Account"), schema.empty_table(), mode="append", schema_mode="merge"
        )
        note_cut(warehouse, ["Account"], 2)
        write_live_views(tables_of(warehouse), file, LONG_AGO + NOTED_BEFORE)
        assert held.execute("SELECT count(*) FROM account").fetchall() == [(0,)]
        assert held.execute("SELECT position FROM sfcdc_cut").fetchall() == [(2,)]
    with duckdb.connect(str(file), read_only=True) as again:
        assert again.execute('SELECT "Later__c" FROM account').fetchall() == []


def test_only_the_files_of_the_cut_are_opened(life: Life, tmp_path: Path) -> None:
    file = tmp_path / "live.duckdb"
    for moment in (LONG_AGO, LONG_AGO + NOTED_BEFORE):
        write_live_views(life.step(records=100), file, moment)
    with duckdb.connect(str(file), read_only=True) as live:
        ((_, plan),) = live.execute("EXPLAIN ANALYZE SELECT max(_valid_from) FROM account_history").fetchall()
        shown = dict(live.execute(f'SELECT "table", {FILES} FROM sfcdc_shown').fetchall())
    folders = {folder.name.removeprefix(f"{FILES}=") for folder in (tmp_path / "live.duckdb.cuts").glob("*/*/*")}
    others = folders - set(shown.values())
    assert others
    assert f"{FILES} = '{shown['current_state/Account']}'" in plan
    assert not any(each in plan for each in others)


def test_pinned_views_are_swapped_beneath_nobody(life: Life, tmp_path: Path) -> None:
    """The reader is another process, which holds its lock on the file."""
    file = tmp_path / "pinned.duckdb"
    write_views(life.step(), file)
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    before = reader.stdout.readline()
    write_views(life.step(), file)
    with duckdb.connect(str(file), read_only=True) as again:
        assert str(again.execute("SELECT count(*) FROM account_history").fetchall()) != before.strip()
    said, _ = reader.communicate("\n", timeout=60)
    assert said == before


_READER = """
import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True) as held:
    for _ in range(2):
        print(held.execute("SELECT count(*) FROM account_history").fetchall(), flush=True)
        sys.stdin.readline() if _ == 0 else None
"""


def test_a_file_that_another_program_writes_to_is_left_alone(tmp_path: Path) -> None:
    file, tables = tmp_path / "theirs.duckdb", tables_of(small_warehouse(tmp_path / "warehouse", ["Account"]))
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    with pytest.raises(FileNotWritten, match="close programs that have the file open for writing"):
        write_views(tables, file)
    writer.communicate("\n", timeout=60)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["theirs.duckdb", "warehouse"]


_WRITER = """
import duckdb, sys
with duckdb.connect(sys.argv[1]) as held:
    held.execute("CREATE TABLE mine AS SELECT 1 AS a")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_views_of_others_are_never_taken_for_ours(tmp_path: Path) -> None:
    file, tables = tmp_path / "org.duckdb", tables_of(small_warehouse(tmp_path / "warehouse", ["Account"]))
    with duckdb.connect(str(file)) as other:
        other.execute("CREATE VIEW theirs AS SELECT 1 AS a")
    for _ in range(2):
        write_views(tables, file)
    with duckdb.connect(str(file), read_only=True) as other:
        assert other.execute("SELECT * FROM theirs").fetchall() == [(1,)]
