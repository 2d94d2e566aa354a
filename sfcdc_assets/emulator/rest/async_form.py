"""Jobs, batches and errors of the first version of the Bulk API, as JSON and as XML; requests for jobs in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.rest.async_error import AsyncError
from sfcdc_assets.emulator.rest.async_job import AsyncBatch, AsyncJob
from sfcdc_assets.emulator.rest.json_body import parse_json

_NAMESPACE = "http://www.force.com/2009/06/asyncapi/dataload"
Facts = Mapping[str, Any]


def job_request(body: bytes, *, is_json: bool) -> dict[str, Any]:
    """Return the facts of a `jobInfo`. Raises AsyncError."""
    if is_json:
        try:
            document = parse_json(body)
        except ValueError as error:
            raise AsyncError("InvalidJob", f"Unable to parse Job: {error}") from None
        if not isinstance(document, dict):
            raise AsyncError("InvalidJob", "Unable to parse Job")
        return document
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise AsyncError("InvalidJob", "document types are not allowed")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise AsyncError("InvalidJob", f"Unable to parse Job: {error}") from None
    return {part.tag.rpartition("}")[2]: (part.text or "").strip() for part in root}


def job_facts(job: AsyncJob, batches: Sequence[AsyncBatch]) -> Facts:
    """Return the facts in the order of the vendor's XML schema."""
    states = [batch.state for batch in batches]
    return {
        "id": job.id,
        "operation": job.operation,
        "object": job.entity,
        "createdById": job.created_by,
        "createdDate": datetime_text(job.created_at, "Z"),
        "systemModstamp": datetime_text(job.changed_at, "Z"),
        "state": job.state,
        **({"externalIdFieldName": job.external_id} if job.external_id else {}),
        "concurrencyMode": job.concurrency,
        "contentType": job.content_type,
        "numberBatchesQueued": states.count("Queued"),
        "numberBatchesInProgress": 0,
        "numberBatchesCompleted": states.count("Completed"),
        "numberBatchesFailed": states.count("Failed"),
        "numberBatchesTotal": len(batches),
        "numberRecordsProcessed": sum(batch.processed for batch in batches),
        "numberRetries": 0,
        "apiVersion": float(job.api_version),
        "numberRecordsFailed": sum(batch.failed for batch in batches),
        "totalProcessingTime": 0,
        "apiActiveProcessingTime": 0,
        "apexProcessingTime": 0,
    }


def batch_facts(batch: AsyncBatch) -> Facts:
    """Return the facts in the order of the vendor's XML schema."""
    return {
        "id": batch.id,
        "jobId": batch.job_id,
        "state": batch.state,
        **({"stateMessage": batch.message} if batch.message else {}),
        "createdDate": datetime_text(batch.created_at, "Z"),
        "systemModstamp": datetime_text(batch.changed_at, "Z"),
        "numberRecordsProcessed": batch.processed,
        "numberRecordsFailed": batch.failed,
        "totalProcessingTime": 0,
        "apiActiveProcessingTime": 0,
        "apexProcessingTime": 0,
    }


def answer(name: str, facts: Facts, *, is_json: bool, status: int = 200) -> Response:
    """`jobInfo` or `batchInfo`."""
    if is_json:
        return JSONResponse(dict(facts), status_code=status)
    return _xml(f'<{name} xmlns="{_NAMESPACE}">{_elements(facts)}</{name}>', status)


def batch_list(batches: Sequence[Facts], *, is_json: bool) -> Response:
    """`batchInfoList`."""
    if is_json:
        return JSONResponse({"batchInfo": [dict(batch) for batch in batches]})
    inner = "".join(f"<batchInfo>{_elements(batch)}</batchInfo>" for batch in batches)
    return _xml(f'<batchInfoList xmlns="{_NAMESPACE}">{inner}</batchInfoList>', 200)


def result_list(names: Sequence[str], *, is_json: bool) -> Response:
    """Return the ids of a query's results."""
    if is_json:
        return JSONResponse(list(names))
    inner = "".join(f"<result>{name}</result>" for name in names)
    return _xml(f'<result-list xmlns="{_NAMESPACE}">{inner}</result-list>', 200)


def refused(error: ApiError, *, is_json: bool) -> Response:
    """Return an error in this API's own form."""
    facts = {"exceptionCode": error.error_code, "exceptionMessage": error.message}
    return answer("error", facts, is_json=is_json, status=error.status)


def _elements(facts: Facts) -> str:
    return "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in facts.items())


def _xml(inner: str, status: int) -> Response:
    text = f'<?xml version="1.0" encoding="UTF-8"?>{inner}'
    return Response(text, status_code=status, media_type="application/xml")
