"""What batches of the first version of the Bulk API do: run a query, or change records 200 a transaction.

In JSON, dates and moments are epoch ms, unlike anywhere else in the org's API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.async_error import AsyncError
from sfcdc_assets.emulator.rest.async_job import AsyncJob
from sfcdc_assets.emulator.rest.csv_form import cells, csv_line, csv_lines, read_rows, record_of
from sfcdc_assets.emulator.rest.ingest_job import ROWS_IN_TRANSACTION
from sfcdc_assets.emulator.rest.json_body import parse_json
from sfcdc_assets.emulator.rest.query import compile_for
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.rest.record_operations import RecordOperations
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.soql.compiled_query import CompiledQuery

_BLOCK = 1_000
_MAX_RECORDS = 10_000


class AsyncWork:
    """The work of one org's batches."""

    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._operations = RecordOperations(context)

    def run(self, job: AsyncJob, data: str, keep: Callable[[str], None]) -> tuple[int, int]:
        """Do it, giving the result to `keep` in pieces; how many records there were, and how many failed."""
        return (self._query(job, data, keep), 0) if job.is_query else self._change(job, data, keep)

    def _query(self, job: AsyncJob, data: str, keep: Callable[[str], None]) -> int:
        org = self._context.org
        try:
            compiled = compile_for(self._context, data.strip(), include_deleted=job.operation == "queryAll")
        except ApiError as error:
            raise AsyncError("InvalidBatch", f"Failed to process query: {error.error_code}: {error.message}") from None
        if compiled.definition.name != job.entity:
            message = f"Failed to process query: the job is of {job.entity}, the query of {compiled.definition.name}"
            raise AsyncError("InvalidBatch", message)
        if compiled.counts or compiled.children or compiled.by_type or compiled.query.offset:
            message = "Aggregate queries, nested ones, TYPEOF and OFFSET are not supported by the Bulk API"
            raise AsyncError("FeatureNotEnabled", message)
        for selected in compiled.selected:
            if selected.components:
                message = f"Cannot serialize value for '{selected.field.name}' in {job.content_type} format"
                raise AsyncError("FeatureNotEnabled", message)
        as_text = _json_rows if job.content_type == "JSON" else _csv_rows
        count = 0
        if job.content_type == "CSV":
            keep(csv_line([".".join(each.path) for each in compiled.selected], ",") + "\n")
        else:
            keep("[")
        for rows in org.rest_view.stream(compiled.sql, compiled.parameters, _BLOCK):
            keep(as_text(compiled, rows, version=job.api_version, is_first=count == 0))
            count += len(rows)
        if job.content_type == "JSON":
            keep("]")
        return count

    def _change(self, job: AsyncJob, data: str, keep: Callable[[str], None]) -> tuple[int, int]:
        records = _records(job, data)
        if len(records) > _MAX_RECORDS:
            raise AsyncError(
                "ExceededQuota", f"Records limit reached. Cannot submit more than {_MAX_RECORDS:,} records"
            )
        definition = self._context.definition(job.entity)
        request = ApiRequest("POST", {"version": job.api_version}, {}, {}, b"", job.created_by, "", api="bulkapi")
        outcomes: list[dict[str, Any]] = []
        for start in range(0, len(records), ROWS_IN_TRANSACTION):
            changes = [
                self._operations.change(job.operation, lambda: definition, record, external_id=job.external_id or "Id")
                for record in records[start : start + ROWS_IN_TRANSACTION]
            ]
            outcomes += self._operations.run(request, changes, all_or_none=False)
        for outcome in outcomes:
            outcome.setdefault("id", None)
            outcome.setdefault("created", job.operation == "insert" and outcome["success"])
        keep(json.dumps(outcomes) if job.content_type == "JSON" else _csv_outcomes(outcomes))
        return len(outcomes), sum(not outcome["success"] for outcome in outcomes)


def _records(job: AsyncJob, data: str) -> list[dict[str, Any]]:
    if job.content_type == "CSV":
        header, rows = read_rows(data, ",")
        return [record_of(header, row) for row in rows]
    try:
        records = parse_json(data)
    except ValueError as error:
        raise AsyncError("InvalidBatch", f"Failed to parse JSON: {error}") from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise AsyncError("InvalidBatch", "The batch must be a list of records")
    return records


def _csv_rows(compiled: CompiledQuery, rows: Sequence[Sequence[Any]], **_of_json: object) -> str:
    columns = [cells(each.field, [row[each.first] for row in rows]) for each in compiled.selected]
    return "".join(csv_lines(columns, ",", "\n"))


def _json_rows(compiled: CompiledQuery, rows: Sequence[Sequence[Any]], *, version: str, is_first: bool) -> str:
    text = ",".join(json.dumps(_json_record(compiled, row, f"/services/data/v{version}")) for row in rows)
    return text if is_first else f",{text}"


def _json_record(compiled: CompiledQuery, row: Sequence[Any], data_path: str) -> dict[str, Any]:
    record = record_json(compiled, row, data_path)
    for selected in compiled.selected:
        value = row[selected.first]
        if selected.field.type not in {"date", "datetime"} or value is None:
            continue
        place: Any = record
        for step in selected.path[:-1]:
            place = place[step]
        place[selected.path[-1]] = value if isinstance(value, int) else _midnight(value)
    return record


def _midnight(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000


def _csv_outcomes(outcomes: list[dict[str, Any]]) -> str:
    lines = [csv_line(["Id", "Success", "Created", "Error"], ",")]
    for outcome in outcomes:
        error = "".join(
            f"{each['statusCode']}:{each['message']}:{','.join(each['fields']) or '--'}" for each in outcome["errors"]
        )
        truths = ["true" if outcome[name] else "false" for name in ("success", "created")]
        lines.append(csv_line([outcome["id"] or "", *truths, error], ","))
    return "".join(line + "\n" for line in lines)
