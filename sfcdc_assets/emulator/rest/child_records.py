"""The children of records, where a query asks for them: `(SELECT LastName FROM Contacts)`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.rest.spoiled_records import spoiled
from sfcdc_assets.emulator.soql.compiled_query import ChildRows, CompiledQuery


def add_children(
    org: EmulatedOrg,
    compiled: CompiledQuery,
    rows: Sequence[Sequence[Any]],
    records: Sequence[dict[str, Any]],
    data_path: str,
) -> None:
    """Put its children into each of a page's records, by the name of the relationship; null where there are none."""
    for child in compiled.children:
        by_parent = _by_parent(org, child, [row[0] for row in rows], data_path)
        for row, record in zip(rows, records, strict=True):
            found = by_parent.get(row[0], [])[child.offset :]
            kept = found if child.limit is None else found[: child.limit]
            record[child.name] = {"totalSize": len(kept), "done": True, "records": kept} if kept else None


def _by_parent(
    org: EmulatedOrg, child: ChildRows, parent_ids: Sequence[str], data_path: str
) -> dict[str, list[dict[str, Any]]]:
    inner = child.compiled
    found: dict[str, list[dict[str, Any]]] = {}
    for row in org.rest_view.rows(inner.sql, (*inner.parameters, json.dumps(list(parent_ids)))):
        record = spoiled(org.settings, row[0], record_json(inner, row, data_path))
        found.setdefault(row[-1], []).append(record)
    return found
