"""What the page about changes has people do: dbt, Postgres, a webhook, a producer and the command."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import quote

import dagster as dg
import duckdb
import jinja2
import psycopg2
import pytest

from sfcdc_assets import changes_since, open_cut
from sfcdc_assets_tests.changes.conftest import DOOMED
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.deploy.postgres import LOOPBACK, PASSWORD, Postgres, postgres_server
from sfcdc_assets_tests.documentation import ROOT, code_blocks
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow


def example(name: str) -> ModuleType:
    """A module of examples/consumers."""
    spec = spec_from_file_location(name, ROOT / "examples" / "consumers" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


POSTGRES, WEBHOOK = example("postgres"), example("webhook")


def follow_as_the_asset() -> dict[str, Any]:
    """Materialize the asset; what it says of itself."""
    done = dg.materialize([POSTGRES.account_in_postgres])
    (made,) = done.asset_materializations_for_node("account_in_postgres")
    return {name: each.value for name, each in made.metadata.items()}


BLOCKS = code_blocks(ROOT / "docs" / "changes-since.md")


def change_something(org: EmulatedPipeline, number: int) -> None:
    first, *_ = ids(org.org, "Account")
    doomed = next(each["Id"] for each in org.org.records("Account") if str(each["Name"]).startswith(DOOMED))
    with org.org.transaction() as work:
        work.update("Account", first, {"Phone": str(number), "Industry": f"Industry {number}"})
        work.delete("Account", str(doomed))
        work.create("Account", {"Name": f"New {number}"})
    org.sync()


def expected(org: EmulatedPipeline, *names: str) -> dict[str, tuple[Any, ...]]:
    rows = open_cut(str(org.warehouse)).arrow("Account").to_pylist()
    return {row["Id"]: tuple(row[name] for name in names) for row in rows}


def test_dbts_incremental_model_is_the_table_after_each_run(org: EmulatedPipeline, tmp_path: Path) -> None:
    (model,) = [block.text for block in BLOCKS if block.language == "sql"]
    target = duckdb.connect(str(tmp_path / "dbt.duckdb"))

    def run(*, incremental: bool) -> int:
        assert sfcdc("views", "--duckdb", "views.duckdb").exit_code == 0
        target.execute("ATTACH 'views.duckdb' AS salesforce (READ_ONLY)")

        def run_query(query: str) -> Any:
            values = [row[0] for row in target.execute(query).fetchall()]
            return SimpleNamespace(columns=[SimpleNamespace(values=lambda: values)])

        names = {"config": lambda **_: "", "this": "dbt.main.account", "run_query": run_query}
        query = (
            jinja2.Environment(autoescape=False).from_string(model).render(is_incremental=lambda: incremental, **names)
        )
        target.execute("USE salesforce")
        target.execute(f"CREATE OR REPLACE TEMP TABLE told AS {query}")
        target.execute("USE dbt")
        if incremental:
            target.execute('DELETE FROM account WHERE "Id" IN (SELECT "Id" FROM told)')
            target.execute("INSERT INTO account SELECT * FROM told")
        else:
            target.execute("CREATE TABLE account AS SELECT * FROM told")
        (count,) = target.execute("SELECT count(*) FROM told").fetchone() or (0,)
        target.execute("DETACH salesforce")
        return int(count)

    living = len(ids(org.org, "Account"))
    for number in range(3):
        reported = run(incremental=number > 0)
        assert reported == (3 if number else living)
        rows = target.execute('SELECT "Id", "Name", "Industry" FROM account WHERE NOT is_deleted').fetchall()
        assert {key: tuple(rest) for key, *rest in rows} == expected(org, "Name", "Industry")
        change_something(org, number)
    target.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


def test_a_table_in_postgres_is_the_table_after_each_run_of_the_asset(
    org: EmulatedPipeline, postgres: Postgres
) -> None:
    database = f"postgresql://dagster:{quote(PASSWORD, safe='')}@{LOOPBACK}:{postgres.port}/dagster"

    def in_postgres() -> dict[str, tuple[Any, ...]]:
        connection = psycopg2.connect(database)
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, name, industry, phone FROM account")
            found = {key: tuple(rest) for key, *rest in cursor.fetchall()}
        connection.close()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", database)
        patch.setenv("SFCDC_WAREHOUSE", str(org.warehouse))
        living = len(ids(org.org, "Account"))
        for number in range(3):
            metadata = follow_as_the_asset()
            assert (metadata["changed"], metadata["deleted"]) == ((2, 1) if number else (living, 0))
            assert in_postgres() == expected(org, "Name", "Industry", "Phone")
            change_something(org, number)
        assert sfcdc("rebuild", "--entity", "Account").exit_code == 0
        org.sync()
        assert follow_as_the_asset()["changed"] == len(ids(org.org, "Account"))
        assert in_postgres() == expected(org, "Name", "Industry", "Phone")


def test_a_webhook_gets_every_change_and_again_what_it_did_not_take(org: EmulatedPipeline, tmp_path: Path) -> None:
    taken: list[dict[str, Any]] = []
    refuses = threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not refuses.is_set():
                taken.extend(body["changes"])
            self.send_response(503 if refuses.is_set() else 204)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    token = tmp_path / "token"
    with HTTPServer((LOOPBACK, 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{LOOPBACK}:{server.server_port}/"
        assert WEBHOOK.post(str(org.warehouse), "Account", url, token) == len(taken) == len(ids(org.org, "Account"))
        first = len(taken)
        kept = token.read_text()
        change_something(org, 1)
        refuses.set()
        with pytest.raises(OSError, match="503"):
            WEBHOOK.post(str(org.warehouse), "Account", url, token)
        assert token.read_text() == kept
        refuses.clear()
        assert WEBHOOK.post(str(org.warehouse), "Account", url, token) == 3
        assert sorted(each["_op"] for each in taken[first:]) == ["delete", "insert", "update"]
        assert WEBHOOK.post(str(org.warehouse), "Account", url, token) == 0
        server.shutdown()


def test_a_producer_is_given_each_change_before_the_token_is_kept(org: EmulatedPipeline) -> None:
    (recipe,) = [block.text for block in BLOCKS if "def send" in block.text]
    names: dict[str, Any] = {"json": json}
    exec(recipe, names)
    produced: list[tuple[str, str | None]] = []
    producer = SimpleNamespace(
        produce=lambda _, key, value: produced.append((key, value)), flush=lambda: produced.append(("flushed", None))
    )
    _, token = changes_since(str(org.warehouse), "Account")
    change_something(org, 1)
    reported, _ = changes_since(str(org.warehouse), "Account", token)
    names["send"](producer, reported)
    assert produced[-1] == ("flushed", None)
    assert [key for key, _ in produced[:-1]] == reported["Id"].to_pylist()
    assert [value is None for _, value in produced[:-1]] == [each == "delete" for each in reported["_op"].to_pylist()]


def test_the_command_prints_a_line_a_record_and_keeps_its_token(org: EmulatedPipeline) -> None:
    first = sfcdc("changes", "account", "--token-file", "account.token")
    assert len(first.stdout.splitlines()) == len(ids(org.org, "Account")), first.stderr
    assert Path("account.token").read_text() == first.stderr.splitlines()[-1] + "\n"
    change_something(org, 1)
    second = sfcdc("changes", "Account", "--token-file", "account.token")
    assert sorted(json.loads(line)["_op"] for line in second.stdout.splitlines()) == ["delete", "insert", "update"]
    again = sfcdc("changes", "Account", "--since", first.stderr.splitlines()[-1], "--versions")
    assert len(again.stdout.splitlines()) == 3
    assert not sfcdc("changes", "Account", "--token-file", "account.token").stdout
    assert sfcdc("changes", "Account", "--since", "0").exit_code == 0
    assert sfcdc("changes", "Account", "--since", "2020-01-01").exit_code == 0
    refused = sfcdc("changes", "Account", "--since", "sfcdc1.wrong")
    assert refused.exit_code == 1
    assert "it is damaged" in refused.stderr
    both = sfcdc("changes", "Account", "--since", "1", "--token-file", "account.token")
    assert both.exit_code == 1
    assert "Leave one of them out" in both.stderr


def test_a_token_file_that_cannot_be_used_is_refused_before_any_record_is_printed(
    org: EmulatedPipeline, tmp_path: Path
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\x99")
    (tmp_path / "words").write_text("hello")
    (tmp_path / "empty").touch()
    for name, problem in {
        "bytes": "cannot be read: it is no text in UTF-8",
        "words": "'hello' is not a time",
        "empty": "'' is not a time",
        ".": "cannot be read: Is a directory",
        "nowhere/token": f"the folder {tmp_path}/nowhere is not there",
    }.items():
        said = refusal(sfcdc("changes", "Account", "--token-file", str(tmp_path / name)))
        assert said.startswith("sfcdc: --token-file"), said
        assert problem in said


def test_the_asset_stands_behind_the_entitys() -> None:
    asset = POSTGRES.account_in_postgres
    assert asset.dependency_keys == {dg.AssetKey(["salesforce", "account"])}
