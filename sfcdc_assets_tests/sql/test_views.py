"""The views of `sfcdc sql` against the tables, the org and what the org did."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.lake.tables.all_versions import open_history
from sfcdc_assets.lake.tables.consistent_cuts import cuts
from sfcdc_assets.lake.tables.open_cut import OpenCut, cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql import kept_views
from sfcdc_assets.sql.cut_connection import AskedTables
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.oracle import expected_rows, living_at
from sfcdc_assets_tests.sql.conftest import ENTITIES, Asked

pytestmark = [pytest.mark.usefixtures("tables_of_the_org"), pytest.mark.slow]


@pytest.fixture
def views(asked: Asked) -> Iterator[AskedTables]:
    with AskedTables(TablesOfCuts(Warehouse(asked.root), cuts_at(Warehouse(asked.root)))) as views:
        yield views


def rows_of(views: AskedTables, query: str) -> list[dict[str, Any]]:
    (statement,) = views.connection.extract_statements(query)
    result = views.run(statement)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def asked_json(*arguments: str) -> list[dict[str, Any]]:
    result = sfcdc("sql", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def fields_of(row: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in wanted}


@pytest.mark.parametrize("entity", ENTITIES)
def test_an_entitys_view_has_the_live_records_of_the_org(asked: Asked, views: AskedTables, entity: str) -> None:
    expected = {key: row for key, row in expected_rows(asked.pipeline.org, entity).items() if not row["_is_deleted"]}
    found = {row["Id"]: row for row in rows_of(views, f'SELECT * FROM "{entity.lower()}"')}
    assert found.keys() == expected.keys()
    for key, wanted in expected.items():
        assert fields_of(found[key], wanted) == wanted


@pytest.mark.parametrize("entity", ENTITIES)
def test_history_has_every_version_and_is_what_python_opens(asked: Asked, views: AskedTables, entity: str) -> None:
    expected = open_history(asked.root, entity)
    chosen = ", ".join(f'"{name}"' for name in expected.column_names)
    found = rows_of(views, f'SELECT {chosen} FROM "{entity.lower()}_history"')
    key = lambda row: (row["Id"], row["_position"], row["_superseded_at"] or 2**62)  # noqa: E731
    assert sorted(found, key=key) == sorted(expected.to_pylist(), key=key)


@pytest.mark.parametrize("entity", ENTITIES)
def test_a_time_shows_the_records_that_lived_then(asked: Asked, views: AskedTables, entity: str) -> None:
    last = max(
        each.commit_number
        for each in asked.pipeline.org.transactions(0)
        if each.commit_timestamp <= asked.then.timestamp() * 1000
    )
    expected = living_at(asked.pipeline.org, entity, last)
    moment = asked.then.isoformat()
    by_macro = rows_of(views, f"SELECT * FROM \"{entity.lower()}_as_of\"('{moment}')")
    tables = TablesOfCuts(Warehouse(asked.root), cuts_at(Warehouse(asked.root)))
    with AskedTables(tables, at=asked.then) as then:
        by_option = rows_of(then, f'SELECT * FROM "{entity.lower()}"')
        ended = rows_of(then, f"SELECT count(*) AS n FROM \"{entity.lower()}_history\" WHERE _valid_to > '{moment}'")
    for found in (by_macro, by_option):
        by_id = {row["Id"]: row for row in found}
        assert by_id.keys() == expected.keys()
        for key, wanted in expected.items():
            assert fields_of(by_id[key], wanted) == wanted
    assert ended == [{"n": 0}]


def test_a_time_may_have_any_zone_and_is_utc_without_one(asked: Asked) -> None:
    query = "SELECT count(*) AS n FROM account_history"
    plain = asked.then.replace(tzinfo=None).isoformat()
    elsewhere = (asked.then + timedelta(hours=5, minutes=30)).replace(tzinfo=None).isoformat() + "+05:30"
    assert asked_json("--at", plain, query) == asked_json("--at", elsewhere, query) != asked_json(query)
    assert "--at: 'yesterday' is not a time" in refusal(sfcdc("sql", "--at", "yesterday", query))


def test_of_a_time_before_the_first_snapshot_it_says_what_is_not_known(asked: Asked) -> None:
    before = "2020-01-01"
    result = sfcdc("sql", "--at", before, "SELECT count(*) FROM account")
    assert result.exit_code == 0
    assert "Account was first read at " in result.stderr
    assert "what nothing has changed since" in result.stderr
    assert sfcdc("sql", "--at", asked.then.isoformat(), "SELECT count(*) FROM account").stderr == ""


def test_all_tables_are_at_the_same_cut(asked: Asked) -> None:
    """Those of an earlier cut too, event by event."""
    warehouse = Warehouse(asked.root)
    for cut in cuts(warehouse):
        with AskedTables(TablesOfCuts(warehouse, [OpenCut(warehouse, cut)])) as views:
            assert rows_of(views, "SELECT max(position) AS p FROM raw_events") in ([{"p": cut.position}], [{"p": None}])
            for entity in ENTITIES:
                latest = f'SELECT max(_position) AS p FROM "{entity.lower()}_history"'
                assert (rows_of(views, latest)[0]["p"] or 0) <= cut.position


def test_rows_of_a_batch_that_was_never_committed_are_left_out(asked: Asked, views: AskedTables) -> None:
    query = "SELECT count(*) AS n FROM account_history"
    (before,) = rows_of(views, query)
    history = asked.pipeline.table("history/Account")
    left_over = pa.table(history.scan()).slice(0, 1)
    batch = left_over.schema.get_field_index("_batch")
    left_over = left_over.set_column(batch, left_over.schema.field(batch), pa.array([10**6]))
    write_deltalake(history, left_over, mode="append")
    try:
        tables = TablesOfCuts(Warehouse(asked.root), cuts_at(Warehouse(asked.root)))
        with AskedTables(tables) as again:
            assert rows_of(again, query) == [before]
    finally:
        history.restore(history.version() - 1)


def test_users_names_stand_beside_their_ids(asked: Asked, views: AskedTables) -> None:
    users = {str(each["Id"]): each for each in asked.pipeline.org.records("User")}
    for row in rows_of(views, 'SELECT "OwnerId", owner_name, "LastModifiedById", last_modified_by_name FROM account'):
        for reference, beside in (("OwnerId", "owner_name"), ("LastModifiedById", "last_modified_by_name")):
            user = users[row[reference]]
            assert row[beside] == " ".join(filter(None, (user.get("FirstName"), user.get("LastName"))))
    (changed,) = rows_of(views, "SELECT * FROM account_history WHERE _change_type = 'DELETE' LIMIT 1")
    assert changed["_commit_user_name"]


def test_tables_join_and_other_views_are_there(asked: Asked, views: AskedTables) -> None:
    (found,) = rows_of(
        views,
        'SELECT count(*) AS n FROM "case" c JOIN account a ON a."Id" = c."AccountId" '
        "WHERE NOT a._in_doubt AND NOT c._in_doubt",
    )
    accounts = {str(each["Id"]) for each in asked.pipeline.org.records("Account")}
    assert found["n"] == sum(str(each.get("AccountId")) in accounts for each in asked.pipeline.org.records("Case"))
    events = rows_of(views, "SELECT count(*) AS n FROM raw_events WHERE entity_name = 'Account'")
    assert events[0]["n"] == len([row for row in asked.pipeline.scan("raw_events") if row["entity_name"] == "Account"])
    assert rows_of(views, "SELECT count(*) AS n FROM account_text_fields")[0]["n"] == len(
        asked.pipeline.scan("text_fields/Account")
    )
    names = {row["name"] for row in rows_of(views, "SHOW TABLES")}
    assert {"account", "account_history", "case", "user", "account_gap_reconciliation", "schemas"} <= names


def test_only_what_is_asked_for_is_opened(views: AskedTables) -> None:
    rows_of(views, "SELECT 1 AS one")
    rows_of(views, "SELECT count(*) FROM account")
    assert made_in(views) == {
        "user_names",
        "account",
        "account_history",
        "account_text_fields",
        "account_gap_reconciliation",
    }


def made_in(views: AskedTables) -> set[str]:
    found = views.connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    return {row[0] for row in found}


def test_what_tables_there_are_is_said_without_opening_them(views: AskedTables) -> None:
    names = {row["name"] for row in rows_of(views, "-- all of them\nshow  tables;")}
    assert made_in(views) == set()
    views.make_all()
    everything = {row[0] for row in views.connection.execute("SHOW TABLES").fetchall()}
    assert names == everything - {"user_names"}, "what other views stand on is not asked for"


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("SELECT * FROM acount", "account"),
        ("SELECT * FROM acount_as_of('2026-01-01')", "account_as_of"),
        ('WITH found AS (SELECT "Id" FROM acounts) SELECT count(*) FROM found', "account"),
    ],
)
def test_a_misspelt_table_opens_no_other(views: AskedTables, query: str, meant: str) -> None:
    (statement,) = views.connection.extract_statements(query)
    with pytest.raises(duckdb.CatalogException, match=f'Did you mean "{meant}"'):
        views.run(statement)
    assert made_in(views) == set()


def test_what_other_views_stand_on_can_be_asked_for_all_the_same(views: AskedTables) -> None:
    assert rows_of(views, "SELECT count(*) > 0 AS found FROM user_names") == [{"found": True}]


# -- the command


def test_csv_and_json_have_all_values_and_programs_read_them(asked: Asked) -> None:
    query = 'SELECT "Id", "Name", "AnnualRevenue", _is_deleted, _valid_from, _changed_fields FROM account ORDER BY "Id"'
    as_json = asked_json(query)
    result = sfcdc("sql", "--format", "csv", query)
    as_csv = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["Id"] for row in as_csv] == [row["Id"] for row in as_json]
    expected = expected_rows(asked.pipeline.org, "Account")
    for texts, row in zip(as_csv, as_json, strict=True):
        wanted = expected[row["Id"]]
        assert row["Name"] == texts["Name"] == wanted["Name"]
        assert row["AnnualRevenue"] == wanted["AnnualRevenue"]
        assert texts["AnnualRevenue"] == ("" if row["AnnualRevenue"] is None else json.dumps(row["AnnualRevenue"]))
        assert (row["_is_deleted"], texts["_is_deleted"]) == (False, "false")
        assert texts["_valid_from"] == row["_valid_from"]
        assert row["_valid_from"].endswith("Z")
        assert texts["_changed_fields"] == (
            "" if row["_changed_fields"] is None else json.dumps(row["_changed_fields"])
        )


def test_two_columns_of_a_name_and_no_rows_are_json_too() -> None:
    assert asked_json("SELECT 1 AS a, 2 AS a, NULL AS b, 'nan'::DOUBLE AS c") == [
        {"a": 1, "a_1": 2, "b": None, "c": None}
    ]
    assert asked_json('SELECT "Id" FROM account WHERE false') == []


def test_statements_come_from_a_pipe_one_after_the_other() -> None:
    text = "SELECT 1 AS one; -- a comment\nSELECT count(*) > 0 AS found FROM account;\n"
    result = CliRunner().invoke(app, ["sql", "--format", "csv"], input=text)
    assert (result.exit_code, result.stdout) == (0, "one\n1\nfound\ntrue\n")


def test_bytes_that_are_no_text_are_refused_in_a_pipe_and_as_an_argument() -> None:
    piped = CliRunner().invoke(app, ["sql"], input=b"SELECT '\xff'")
    assert refusal(piped) == "sfcdc: the pipe: is no text in UTF-8. Give statements of SQL"
    assert refusal(sfcdc("sql", "SELECT '\udcff'")) == "sfcdc: QUERY: is no text in UTF-8. Give statements of SQL"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM acount", 'Did you mean "account"?'),
        ("SELECT Nam FROM account", 'Referenced column "Nam" not found'),
        ("SELEC 1", "syntax error"),
        ("SELECT count(*) FROM case", 'Write "case" in double quotes'),
        ("SELECT 1/0 + 'x'", "Conversion Error"),
    ],
)
def test_a_statement_that_fails_says_why_and_ends_with_1(query: str, said: str) -> None:
    result = sfcdc("sql", query)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("sfcdc: ")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_without_a_cut_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "empty"))
    for arguments in (("sql", "SELECT 1"), ("views", "--duckdb", "x.duckdb"), ("dbt-sources",)):
        said = refusal(sfcdc(*arguments))
        assert "has no consistent cut yet. Run `sfcdc sync --until-caught-up`" in said
        assert "later time" not in said
    assert not (tmp_path / "empty").exists()


def test_without_duckdb_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_views, "PACKAGES", {"no_such_module": "duckdb"})
    for arguments in (("sql", "SELECT 1"), ("views", "--duckdb", "x.duckdb")):
        assert "pip install 'sfcdc_assets[sql]'" in refusal(sfcdc(*arguments))
    assert sfcdc("dbt-sources").exit_code == 0


# -- for other tools


def test_another_duckdb_opens_the_views_and_sees_the_same_rows(asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "history.duckdb"
    result = sfcdc("views", "--duckdb", str(file))
    assert result.exit_code == 0, result.stderr
    assert f"of 3 entities are in {file}" in " ".join(result.stdout.split())
    for query in ("SELECT count(*) FROM account", f"SELECT count(*) FROM account_as_of('{asked.then.isoformat()}')"):
        with duckdb.connect(str(file), read_only=True) as other:
            found = other.execute(query).fetchall()
        assert [tuple(row.values()) for row in asked_json(query)] == found


def test_views_are_written_again_and_other_things_in_the_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "org.duckdb"
    sfcdc("views", "--duckdb", str(file))
    with duckdb.connect(str(file)) as other:
        other.execute("CREATE TABLE mine AS SELECT 1 AS a")
        other.execute("CREATE VIEW theirs AS SELECT * FROM mine")
        other.execute("CREATE OR REPLACE VIEW account AS SELECT 1 AS stale")
        other.execute("CREATE VIEW gone AS SELECT 1 AS a")
        other.execute("COMMENT ON VIEW gone IS '(written by `sfcdc views`)'")
    assert sfcdc("views", "--duckdb", str(file)).exit_code == 0
    with duckdb.connect(str(file), read_only=True) as other:
        names = {row[0] for row in other.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
        assert other.execute("SELECT * FROM theirs").fetchall() == [(1,)]
        assert other.execute('SELECT count("Name") FROM account').fetchall() != [(0,)]
        (comment,) = other.execute("SELECT comment FROM duckdb_views() WHERE view_name = 'account'").fetchall()[0]
        comments = dict(
            other.execute("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'account'").fetchall()
        )
    assert "gone" not in names
    assert comment.startswith("Account: the live records of Account")
    assert comments["_valid_from"] == "Since when the version is valid, UTC."
    assert comments["BillingCity"] == "Billing City."


def test_a_file_that_cannot_be_written_is_named_and_no_folder_is_made(tmp_path: Path) -> None:
    said = refusal(sfcdc("views", "--duckdb", str(tmp_path / "typo" / "x.duckdb")))
    assert f"there is no folder {tmp_path / 'typo'}" in said
    assert not (tmp_path / "typo").exists()
    (tmp_path / "text.duckdb").write_text("no database " * 1000)
    assert "text.duckdb" in refusal(sfcdc("views", "--duckdb", str(tmp_path / "text.duckdb")))
    with duckdb.connect(str(tmp_path / "own.duckdb")) as other:
        other.execute("CREATE TABLE account AS SELECT 1 AS a")
    assert "account" in refusal(sfcdc("views", "--duckdb", str(tmp_path / "own.duckdb")))


def test_dbt_sources_describe_every_column_of_the_views(views: AskedTables) -> None:
    result = sfcdc("dbt-sources", "--name", "org", "--database", "copy")
    assert result.exit_code == 0
    (source,) = yaml.safe_load(result.stdout)["sources"]
    assert (source["name"], source["database"], source["schema"]) == ("org", "copy", "main")
    tables = {table["name"]: table for table in source["tables"]}
    assert set(tables) == {each.lower() + end for each in ENTITIES for end in ("", "_history")}
    for name, table in tables.items():
        described = rows_of(views, f'DESCRIBE SELECT * FROM "{name}"')
        types = {
            row["column_name"]: row["column_type"].replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
            for row in described
        }
        assert {column["name"]: column["data_type"] for column in table["columns"]} == types
        assert all(column.get("description") for column in table["columns"])
        assert table["description"]
    (identifier,) = [column for column in tables["account"]["columns"] if column["name"] == "Id"]
    assert identifier["data_tests"] == ["unique", "not_null"]
