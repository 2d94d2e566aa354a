"""Dagster's integration with OpenLineage over our runs: what it posts fits the schema of OpenLineage 2-0-2.

`_EVENT` has the rules of https://openlineage.io/spec/2-0-2/OpenLineage.json and of the facets that are used here
(SchemaDatasetFacet, ColumnLineageDatasetFacet, DataQualityAssertionsDatasetFacet): what Marquez, the reference server,
takes on `/api/v1/lineage`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from jsonschema import Draft202012Validator

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytest.importorskip("dagster_openlineage", reason="the extra `peers` is not installed")


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


_TEXT, _URI = {"type": "string"}, {"type": "string", "format": "uri"}


def _facet(required: list[str] = [], **properties: Any) -> dict[str, Any]:  # noqa: B006 - it is not changed
    return _object(["_producer", "_schemaURL", *required], _producer=_URI, _schemaURL=_URI, **properties)


def _named(**facets: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": _facet(), "properties": facets}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_COLUMN = _object(["namespace", "name", "field"], namespace=_TEXT, name=_TEXT, field=_TEXT)
_DATASET = _object(
    ["namespace", "name"],
    namespace=_TEXT,
    name=_TEXT,
    facets=_named(
        schema=_facet(fields=_list(_object(["name"], name=_TEXT, type=_TEXT))),
        columnLineage=_facet(
            ["fields"],
            fields={"type": "object", "additionalProperties": _object(["inputFields"], inputFields=_list(_COLUMN))},
        ),
    ),
    inputFacets=_named(
        dataQualityAssertions=_facet(
            ["assertions"],
            assertions=_list(_object(["assertion", "success"], assertion=_TEXT, success={"type": "boolean"})),
        )
    ),
    outputFacets=_named(),
)
_EVENT = _object(
    ["eventTime", "producer", "schemaURL", "run", "job"],
    eventType={"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
    eventTime={"type": "string", "format": "date-time"},
    producer=_URI,
    schemaURL=_URI,
    run=_object(["runId"], runId={"type": "string", "format": "uuid"}, facets=_named()),
    job=_object(["namespace", "name"], namespace=_TEXT, name=_TEXT, facets=_named()),
    inputs=_list(_DATASET),
    outputs=_list(_DATASET),
)


@contextmanager
def lineage_server(events: list[dict[str, Any]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/api/v1/lineage"
            events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_run_tells_openlineage_its_tables_columns_where_they_come_from_and_its_checks(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = (ROOT / "docs/notices.md").read_text()
    block = (
        page.partition("```yaml\n")[2].partition("```")[0].replace("/var/lib/dagster/history", str(tmp_path / "log"))
    )
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(f"{block}telemetry: {{enabled: false}}\n")
    events: list[dict[str, Any]] = []
    with lineage_server(events) as url:
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            synced.instance = instance
            with synced.org.transaction() as one:
                one.update("Account", ids(synced.org, "Account")[0], {"Name": "told"})
            synced.sync()
    validator = Draft202012Validator(_EVENT, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert [str(error) for event in events for error in validator.iter_errors(event)] == []
    outputs = {each["name"]: each["facets"] for event in events for each in event["outputs"]}
    columns = {each["name"] for each in outputs["salesforce/account"]["schema"]["fields"]}
    assert {"Id", "Name", "_position"} <= columns
    lineage = outputs["salesforce/account"]["columnLineage"]["fields"]
    assert lineage["Name"]["inputFields"]
    checked = {
        each["name"] for event in events for each in event["inputs"] if "dataQualityAssertions" in each["inputFacets"]
    }
    assert checked == {"salesforce/current_state"}
    assert "told" not in json.dumps(events)
