"""What an org's REST side gives for records, with the types of the contract, worked out from its answers alone.

Values are written by ordinary REST calls too, so a test sees the whole way: JSON, the org, events, tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import requests

from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, Rows

VERSION = "/services/data/v65.0"
NUMBERS = frozenset({"double", "currency", "percent"})
COMPOUNDS = frozenset({"address", "location"})
AT_ONCE = 200

Values = Mapping[str, object]


class RestRecords:
    """A client of a pipeline's org, logged in as its integration user."""

    def __init__(self, pipeline: EmulatedPipeline) -> None:
        self._url = pipeline.server.rest_url + VERSION
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(pipeline.server.ca_file)
        token = pipeline.server.sessions.issue(pipeline.org.users.integration)
        self._session.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer; a refusal fails the test."""
        answer = self._session.request(method, self._url + path, json=body, timeout=BOUND_SECONDS)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def create(self, entity: str, records: Sequence[Values]) -> list[str]:
        """New records, one transaction for every 200; their ids."""
        return self._collection("POST", [{"attributes": {"type": entity}, **values} for values in records])

    def update(self, entity: str, values_of: Mapping[str, Values]) -> None:
        """Change records, given by their ids; one transaction for every 200."""
        rows = [{"attributes": {"type": entity}, "id": key, **values} for key, values in values_of.items()]
        self._collection("PATCH", rows)

    def delete(self, entity: str, record_id: str) -> None:
        self.call("DELETE", f"/sobjects/{entity}/{record_id}")

    def undelete(self, entity: str, record_id: str) -> None:
        self.call("POST", f"/sobjects/{entity}/{record_id}/undelete")

    def types(self, entity: str) -> dict[str, str]:
        """Type of each field, as describe says."""
        return {field["name"]: field["type"] for field in self.call("GET", f"/sobjects/{entity}/describe")["fields"]}

    def rows(self, entity: str, ids: Sequence[str]) -> Rows:
        """The records as the contract types them in a table, compound fields left out."""
        types = {name: kind for name, kind in self.types(entity).items() if kind not in COMPOUNDS}
        found = self.call("POST", f"/composite/sobjects/{entity}", {"ids": list(ids), "fields": list(types)})
        return {row["Id"]: {name: typed(kind, row[name]) for name, kind in types.items()} for row in found}

    def _collection(self, method: str, rows: Sequence[Values]) -> list[str]:
        ids = []
        for start in range(0, len(rows), AT_ONCE):
            some = {"records": rows[start : start + AT_ONCE]}
            results = self.call(method, "/composite/sobjects", some)
            wrong = [result["errors"] for result in results if result["errors"]]
            assert not wrong, wrong[:3]
            ids += [result["id"] for result in results]
        return ids


def typed(kind: str, value: Any) -> Any:
    """A JSON value of REST as a table has it."""
    if value is None or kind == "boolean":
        return value
    if kind == "datetime":
        return datetime.fromisoformat(value)
    if kind == "date":
        return date.fromisoformat(value)
    if kind == "time":
        return value.removesuffix("Z")
    return float(value) if kind in NUMBERS else value


def differences(rows: Rows, expected: Rows) -> list[str]:
    """Where the rows' own columns differ from what REST gives: in value, type or sign of zero."""
    return [
        f"{record_id} {name}: table {row[name]!r}, REST {wanted.get(name)!r}"
        for record_id, wanted in expected.items()
        for row in [rows[record_id]]
        for name in row
        if not name.startswith("_") and not same(row[name], wanted.get(name))
    ]


def same(one: object, other: object) -> bool:
    """Equal, of one type, and zeros of one sign."""
    return type(one) is type(other) and (repr(one) == repr(other) if isinstance(one, float) else one == other)
