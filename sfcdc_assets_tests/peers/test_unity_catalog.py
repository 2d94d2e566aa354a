"""The Delta tables in a Unity Catalog: what its own client sends, to a server that answers as the sources of the
open-source one say. That server is in no package registry, so it is not run here.

The client's pins are older than ours, so it is in an environment of its own, which sees this one's packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.sql.unity_catalog import CLIENT
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.peers.installed_once import installed_once
from sfcdc_assets_tests.sql.small_warehouse import small_warehouse

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Invoice__c")
BASE = "/api/2.1/unity-catalog/tables"
TOKEN = "a secret"


class Catalog(ThreadingHTTPServer):
    """One with one schema, `main.crm`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.tables: dict[str, dict[str, Any]] = {}
        self.created = 0


class Answer(BaseHTTPRequestHandler):
    server: Catalog

    def do_POST(self) -> None:
        table = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = f"{table['catalog_name']}.{table['schema_name']}.{table['name']}"
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._say(401, {"error_code": "UNAUTHENTICATED", "message": "who?"})
        elif not name.startswith("main.crm."):
            self._say(404, {"error_code": "SCHEMA_NOT_FOUND", "message": f"Schema not found: {table['schema_name']}"})
        elif name in self.server.tables:
            self._say(400, {"error_code": "TABLE_ALREADY_EXISTS", "message": f"Table already exists: {name}"})
        else:
            self.server.tables[name], self.server.created = table, self.server.created + 1
            self._say(200, table)

    def do_DELETE(self) -> None:
        assert self.path.startswith(BASE)
        del self.server.tables[self.path.rpartition("/")[2]]
        self._say(200, {})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        said = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def serving() -> Iterator[tuple[Catalog, str]]:
    with Catalog() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def python_with_client() -> Path:
    """Python that has the client before our own packages. Skips the test where it cannot be had."""
    ours = sysconfig.get_paths()["purelib"]

    def commands(folder: Path) -> list[list[str]]:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        beside = folder / "lib" / version / "site-packages" / "ours.pth"
        return [
            [sys.executable, "-m", "venv", "--without-pip", str(folder)],
            [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", CLIENT],
            [sys.executable, "-c", f"open({str(beside)!r}, 'w').write({ours!r} + chr(10))"],
        ]

    return installed_once("unity", "\n".join([sys.version, ours, CLIENT]), commands) / "bin" / "python"


def test_each_table_is_registered_with_columns_and_place_and_again_in_its_place(tmp_path: Path) -> None:
    python, warehouse = python_with_client(), small_warehouse(tmp_path / "warehouse", ENTITIES)

    def views(schema: str, token: str = TOKEN, code: int = 0) -> str:
        done = subprocess.run(
            [python, "-m", "sfcdc_assets", "views", "--unity", schema],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SFCDC_WAREHOUSE": str(warehouse.folder),
                "UNITY_CATALOG_SERVER": url,
                "UNITY_CATALOG_TOKEN": token,
            },
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == code, said
        assert token not in said
        return said

    with serving() as (catalog, url):
        for _ in range(2):
            assert "4 tables are in the Unity Catalog schema main.crm." in views("main.crm")
        assert catalog.created == 8
        assert set(catalog.tables) == {
            f"main.crm.{layer}_{each.lower()}" for each in ENTITIES for layer in ("current_state", "history")
        }
        account = catalog.tables["main.crm.current_state_account"]
        assert account["storage_location"] == (warehouse.folder / "current_state" / "Account").resolve().as_uri()
        assert (account["table_type"], account["data_source_format"]) == ("EXTERNAL", "DELTA")
        columns = {each["name"]: each for each in account["columns"]}
        types = {name: columns[name]["type_name"] for name in ("Id", "_valid_from", "_changed_fields")}
        assert types == {"Id": "STRING", "_valid_from": "TIMESTAMP", "_changed_fields": "ARRAY"}
        assert json.loads(columns["_position"]["type_json"])["type"] == "long"
        assert [each["position"] for each in account["columns"]] == list(range(len(columns)))
        assert "Schema not found: sales" in views("main.sales", code=1)
        assert "UNAUTHENTICATED" in views("main.crm", token="another secret", code=1)
    assert "Cannot connect" in views("main.crm", code=1)
