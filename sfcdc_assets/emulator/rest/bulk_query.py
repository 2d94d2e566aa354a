"""The routes of Bulk API 2.0 query jobs (docs/salesforce-streams.md, "Bulk API 2.0 queries")."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.bulk_job import asked_for
from sfcdc_assets.emulator.rest.query import compile_for
from sfcdc_assets.emulator.rest.query_job import QueryJob, QueryJobs
from sfcdc_assets.emulator.rest.rest_context import RestContext

_DEFAULT_PAGE = 50_000


def add_bulk_query(context: RestContext) -> None:
    """Create, list, look at, abort and delete jobs; read their results."""
    resource = _BulkQueryResource(context)
    context.add("/jobs/query", {"POST": resource.create, "GET": resource.all})
    context.add("/jobs/query/{id}", {"GET": resource.look, "PATCH": resource.abort, "DELETE": resource.delete})
    context.add("/jobs/query/{id}/results", {"GET": resource.results})


class _BulkQueryResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._jobs = QueryJobs(context)

    def create(self, request: ApiRequest) -> Response:
        """Create the new job; a query that cannot run is refused here."""
        document = request.json_object()
        operation, query = document.get("operation"), document.get("query")
        if operation not in ("query", "queryAll") or not isinstance(query, str):
            raise ApiError("API_ERROR", "operation must be query or queryAll, and query a SOQL query")
        org = self._context.org
        facts = asked_for(request, org.clock())
        used, most = self._context.usage.used("bulk_query"), org.settings.daily_bulk_query_jobs
        if used >= most:
            raise ApiError("LIMIT_EXCEEDED", f"Max bulk v2 query jobs ({most}) per 24 hrs has been reached ({used})")
        most = org.settings.daily_bulk_query_mb
        if self._context.usage.used("bulk_query_byte") >= most * 2**20:
            message = f"Max bulk v2 query result size stored ({most * 1024}) kb per 24 hrs has been exceeded"
            raise ApiError("LIMIT_EXCEEDED", message)
        definition = compile_for(self._context, query, include_deleted=True).definition
        if not definition.access.bulk:
            raise ApiError("INVALIDENTITY", f"Entity '{definition.name}' is not supported by the Bulk API.")
        entity = definition.name
        job = self._jobs.create(QueryJob(operation=operation, query=query, entity=entity, **facts))
        self._context.usage.add("bulk_query")
        return JSONResponse(job.facts())

    def all(self, _request: ApiRequest) -> Response:
        """All jobs, on one page."""
        records = [job.facts() | {"jobType": "V2Query"} for job in self._jobs.all()]
        return JSONResponse({"done": True, "nextRecordsUrl": None, "records": records})

    def look(self, request: ApiRequest) -> Response:
        """Return the job; looking may move it on."""
        return JSONResponse(_detail_json(self._jobs.look(request.path["id"])))

    def abort(self, request: ApiRequest) -> Response:
        """Abort the job."""
        if request.json_object().get("state") != "Aborted":
            raise ApiError("API_ERROR", "state can only be set to Aborted")
        return JSONResponse(_detail_json(self._jobs.abort(request.path["id"])))

    def delete(self, request: ApiRequest) -> Response:
        """204."""
        self._jobs.delete(request.path["id"])
        return Response(status_code=204)

    def results(self, request: ApiRequest) -> Response:
        """Return a page of CSV, streamed; `Sforce-Locator` leads to the next one and is `null` on the last."""
        job = self._jobs.get(request.path["id"])
        if job.api_version != request.version:
            message = f"the job was created with API version {job.api_version}; its results must be read with the same"
            raise ApiError("VERSION_MISMATCH", message, status=409)
        if job.state != "JobComplete":
            raise ApiError("INVALIDJOBSTATE", f"results are available when the job is JobComplete; it is {job.state}")
        done = _offset(request.query.get("locator"))
        count = max(0, min(_page_size(request), job.records - done))
        following = done + count
        locator = _locator(following) if following < job.records else "null"
        self._context.usage.add("bulk_query_page")
        headers = {"Sforce-Locator": locator, "Sforce-NumberOfRecords": str(count)}
        return StreamingResponse(self._page(job, done, count), media_type="text/csv; charset=UTF-8", headers=headers)

    def _page(self, job: QueryJob, done: int, count: int) -> Iterator[bytes]:
        for first, lines in ((0, 1), (done + 1, count)):
            yield from self._jobs.lines(job, first, lines)


def _page_size(request: ApiRequest) -> int:
    text = request.query.get("maxRecords", str(_DEFAULT_PAGE))
    if not text.isdigit() or int(text) == 0:
        raise ApiError("API_ERROR", "maxRecords must be a whole number greater than 0")
    return int(text)


def _locator(offset: int) -> str:
    return base64.urlsafe_b64encode(str(offset).encode()).decode().rstrip("=")


def _offset(locator: str | None) -> int:
    if not locator:
        return 0
    try:
        return int(base64.urlsafe_b64decode(locator + "=" * (-len(locator) % 4)).decode())
    except (ValueError, binascii.Error):
        raise ApiError("INVALID_QUERY_LOCATOR", "invalid query locator") from None


def _detail_json(job: QueryJob) -> dict[str, Any]:
    detail = {"jobType": "V2Query", "numberRecordsProcessed": job.records, "isPkChunkingSupported": True}
    return job.facts() | detail | job.detail()
