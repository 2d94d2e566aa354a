"""query and queryAll. A result set is pinned when the query starts: later pages come from what was true then.

All rows are read and kept at once, and made into records when their page is asked for: the first page of a large result
comes soon. Only where children belong to the records are they made at once, as the children are pinned with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import ComputedObjects
from sfcdc_assets.emulator.rest.definition_rows import check_definition_query, check_one_batch
from sfcdc_assets.emulator.rest.query_columns import asks_for_columns, query_columns
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.spoiled_records import spoiled
from sfcdc_assets.emulator.soql.compiled_query import ChildRows, CompiledQuery
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.soql.query_rules import check_query

_DEFAULT_BATCH = 2000
_MAX_COMPILED = 500
_LOCATOR = re.compile(r"(0r8[0-9A-Za-z]{15})-(\d+)")
_BATCH_SIZE = re.compile(r"batchSize\s*=\s*(\d+)", re.IGNORECASE)


def add_query(context: RestContext) -> None:
    """`query`, `queryAll` and their `nextRecordsUrl`s."""
    resource = _QueryResource(context)
    for path, include_deleted in (("/query", False), ("/queryAll", True)):
        context.add(path, {"GET": resource.query_all if include_deleted else resource.query})
        context.add(path + "/{locator}", {"GET": resource.more})


def compile_for(context: RestContext, text: str, *, include_deleted: bool) -> CompiledQuery:
    """Return a query as the client may ask it. Raises ApiError, INSUFFICIENT_ACCESS for an object the client may not
    read."""
    tables = context.org.field_security.visible_definitions
    return compile_over(context, text, tables, context.computed, include_deleted=include_deleted)


def compile_over(
    context: RestContext,
    text: str,
    tables: Mapping[str, ObjectDefinition],
    computed: ComputedObjects,
    *,
    include_deleted: bool = False,
) -> CompiledQuery:
    """Return the same over some of the org's objects and some computed ones, which hide objects of the same name."""
    org = context.org
    compiled = compile_query(
        text,
        {**tables, **computed.definitions},
        now=org.clock(),
        include_deleted=include_deleted,
        hidden=org.hidden_objects,
        shared=lambda each: None if each.name in computed.definitions else org.view_all.condition(each),
        behind_formulas=org.definitions,
    )
    for read in (compiled.definition, *compiled.others):
        context.check_readable(read)
    check_query(compiled.query, compiled.definition)
    check_definition_query(compiled.query, compiled.definition)
    if sum(len(each.field.calculated_formula or "") for each in compiled.selected) > org.settings.most_formula_text:
        message = "Query is either selecting too many fields or the filter conditions are too complicated."
        raise ApiError("QUERY_TOO_COMPLICATED", message)
    return computed.given_to(compiled)


class _QueryResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._database = context.org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _query (number INTEGER PRIMARY KEY, locator TEXT UNIQUE, started_at INTEGER, "
            "total INTEGER)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _query_page (locator TEXT, first INTEGER, records TEXT, "
            "PRIMARY KEY (locator, first)) WITHOUT ROWID"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _query_text (locator TEXT PRIMARY KEY, text TEXT, deleted INTEGER, sql TEXT) "
            "WITHOUT ROWID"
        )
        self._compiled: dict[str, CompiledQuery] = {}

    def query(self, request: ApiRequest) -> Response:
        """Return records of a SOQL query, deleted ones left out."""
        return self._run(request, include_deleted=False)

    def query_all(self, request: ApiRequest) -> Response:
        """Like `query`, with the recycle bin."""
        return self._run(request, include_deleted=True)

    def more(self, request: ApiRequest) -> Response:
        """Return a later page, by its locator; valid for two days."""
        match = _LOCATOR.fullmatch(request.path["locator"])
        oldest = self._context.org.clock() - self._context.org.settings.query_locator_lifetime
        row = match and self._database.row(
            "SELECT p.records, q.total, "
            "(SELECT MIN(n.first) FROM _query_page n WHERE n.locator = p.locator AND n.first > p.first) "
            "FROM _query_page p JOIN _query q USING (locator) WHERE p.locator = ? AND p.first = ? AND q.started_at > ?",
            (match.group(1), int(match.group(2)), oldest),
        )
        if match is None or not row:
            raise ApiError("INVALID_QUERY_LOCATOR", "invalid query locator")
        rows, total, following = row
        compiled = self._compiled.get(match.group(1)) or self._compiled_again(match.group(1))
        kept = json.loads(rows)
        records = kept if compiled.children else self._records(request, compiled, kept)
        return _page(request, total, records, match.group(1), following)

    def _compiled_again(self, locator: str) -> CompiledQuery:
        """Return the query of a locator from before a restart. Raises ApiError if it can no longer be asked so."""
        row = self._database.row("SELECT text, deleted, sql FROM _query_text WHERE locator = ?", (locator,))
        with suppress(ApiError):
            compiled = compile_for(self._context, row[0], include_deleted=bool(row[1])) if row else None
            if compiled is not None and row is not None and compiled.sql == row[2]:
                return compiled
        raise ApiError("INVALID_QUERY_LOCATOR", "invalid query locator")

    def _run(self, request: ApiRequest, *, include_deleted: bool) -> Response:
        text = request.query.get("q")
        if not text:
            raise ApiError("MALFORMED_QUERY", "A query string has to be specified")
        with self._database.transaction():
            compiled = compile_for(self._context, text, include_deleted=include_deleted)
            if asks_for_columns(request):
                return JSONResponse(query_columns(compiled))
            if compiled.query.is_count:
                ((total,),) = self._context.org.rest_view.rows(compiled.sql, compiled.parameters)
                self._check_time(total)
                return JSONResponse({"totalSize": total, "done": True, "records": []})
            return self._first_page(request, compiled, include_deleted=include_deleted)

    def _first_page(self, request: ApiRequest, compiled: CompiledQuery, *, include_deleted: bool) -> Response:
        size = _DEFAULT_BATCH if compiled.counts else _batch_size(request)
        blocks = self._context.org.rest_view.stream(compiled.sql, compiled.parameters, size)
        first = self._records(request, compiled, next(blocks, []))
        total = len(first)
        locator: str | None = None
        for block in blocks:
            if locator is None:
                check_one_batch(compiled)
                locator = self._new_locator(compiled, include_deleted=include_deleted)
            rows = self._records(request, compiled, block) if compiled.children else block
            self._database.execute("INSERT INTO _query_page VALUES (?, ?, ?)", (locator, total, json.dumps(rows)))
            total += len(block)
        if compiled.query.order_by:
            self._check_time(total)
        if locator is None:
            return _page(request, total, first, "", None)
        self._database.execute("UPDATE _query SET total = ? WHERE locator = ?", (total, locator))
        return _page(request, total, first, locator, size)

    def _check_time(self, records: int) -> None:
        most = self._context.org.settings.most_rows_in_time
        if most is not None and records > most:
            raise ApiError("QUERY_TIMEOUT", "Your query request was running for too long.")

    def _records(
        self, request: ApiRequest, compiled: CompiledQuery, rows: Sequence[Sequence[Any]]
    ) -> list[dict[str, Any]]:
        records = [record_json(compiled, row, request.data_path) for row in rows]
        if compiled.counts:
            return records
        add_children(self._context.org, compiled, rows, records, request.data_path)
        settings = self._context.org.settings
        return [spoiled(settings, row[0], record) for row, record in zip(rows, records, strict=True)]

    def _new_locator(self, compiled: CompiledQuery, *, include_deleted: bool) -> str:
        org = self._context.org
        oldest = org.clock() - org.settings.query_locator_lifetime
        self._database.execute(
            "DELETE FROM _query_page WHERE locator IN (SELECT locator FROM _query WHERE started_at <= ?)", (oldest,)
        )
        self._database.execute("DELETE FROM _query_text WHERE locator NOT IN (SELECT locator FROM _query_page)")
        while len(self._compiled) >= _MAX_COMPILED:
            del self._compiled[next(iter(self._compiled))]
        row = self._database.row("SELECT COALESCE(MAX(number), 0) + 1 FROM _query")
        number = row[0] if row else 1
        locator = new_id("0r8", instance_characters(org.seed), number)
        self._database.execute("INSERT INTO _query VALUES (?, ?, ?, 0)", (number, locator, org.clock()))
        text = (locator, compiled.query.text, int(include_deleted), compiled.sql)
        self._database.execute("INSERT OR REPLACE INTO _query_text VALUES (?, ?, ?, ?)", text)
        self._compiled[locator] = compiled
        return locator


def _batch_size(request: ApiRequest) -> int:
    match = _BATCH_SIZE.search(request.headers.get("sforce-query-options", ""))
    return min(2000, max(200, int(match.group(1)))) if match else _DEFAULT_BATCH


def _page(
    request: ApiRequest, total: int, records: list[dict[str, Any]], locator: str, following: int | None
) -> Response:
    body: dict[str, Any] = {"totalSize": total, "done": following is None}
    if following is not None:
        body["nextRecordsUrl"] = f"{request.data_path}/query/{locator}-{following}"
    return JSONResponse(body | {"records": records})


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
