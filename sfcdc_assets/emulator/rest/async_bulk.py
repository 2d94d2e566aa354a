"""The routes of the first version of the Bulk API, below `/services/async/{version}`
(https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/api_asynch/asynch_api_intro.htm).

A request is answered in its own form where it has a body, and in that of the job where it has none: JSON for JSON jobs,
XML for those of CSV.
"""

from __future__ import annotations

import re

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.async_error import AsyncError
from sfcdc_assets.emulator.rest.async_form import (
    answer,
    batch_facts,
    batch_list,
    job_facts,
    job_request,
    refused,
    result_list,
)
from sfcdc_assets.emulator.rest.async_job import AsyncBatch, AsyncJob, AsyncJobs
from sfcdc_assets.emulator.rest.async_work import AsyncWork
from sfcdc_assets.emulator.rest.record_operations import OPERATIONS, RecordOperations
from sfcdc_assets.emulator.rest.rest_context import RestContext

_ID = "([0-9A-Za-z]+)"
_PATH = re.compile(rf"job(?:/{_ID}(?:/(batch)(?:/{_ID}(?:/(request|result)(?:/{_ID})?)?)?)?)?/?")
_OPERATIONS = ("query", "queryAll", *OPERATIONS)
_MEDIA = {"CSV": "text/csv", "JSON": "application/json"}
"""As it stands in the header: this API names no charset, and clients compare the whole text (`salesforce-bulk`)."""


def async_bulk_routes(context: RestContext) -> list[Route]:
    """One endpoint for all: what a path means depends on the job, too."""
    resource = _AsyncBulk(context)

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(resource.serve, request, await request.body())

    return [Route("/services/async/{version}/{rest:path}", endpoint, methods=["GET", "POST"])]


class _AsyncBulk:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._operations = RecordOperations(context)
        self._jobs = AsyncJobs(context, AsyncWork(context).run)

    def serve(self, request: Request, body: bytes) -> Response:
        """Return the answer, errors included."""
        is_json = "json" in request.headers.get("content-type", "")
        try:
            user_id = self._user(request)
            self._count()
            self._context.org.housekeeping.look()
            path = _PATH.fullmatch(request.path_params["rest"])
            version = request.path_params["version"]
            if path is None or version not in {f"{each}.0" for each in self._context.org.settings.api_versions}:
                raise AsyncError("InvalidUrl", "Destination URL not reset. The URL is not one of this API", status=404)
            job_id, batches, batch_id, part, result_id = path.groups()
            if job_id is None:
                return self._create(request, body, user_id, version, is_json=is_json)
            job = self._jobs.job(job_id)
            if request.method == "POST" and batches is None:
                return self._end(job, body, is_json=is_json)
            if request.method == "POST":
                return self._add(job, body)
            is_json = job.content_type == "JSON"
            if batches is None:
                return answer("jobInfo", job_facts(job, self._jobs.batches(job)), is_json=is_json)
            if batch_id is None:
                return batch_list([batch_facts(each) for each in self._jobs.batches(job)], is_json=is_json)
            batch = self._jobs.batch(job, batch_id, looking=part is None)
            if part is None:
                return answer("batchInfo", batch_facts(batch), is_json=is_json)
            if part == "request":
                return Response(self._jobs.data(batch), headers={"Content-Type": _MEDIA[job.content_type]})
            return self._result(job, batch, result_id, is_json=is_json)
        except ApiError as error:
            return refused(error, is_json=is_json)

    def _count(self) -> None:
        try:
            self._context.count_requests()
        except ApiError as error:
            raise AsyncError("ExceededQuota", error.message, status=403) from None

    def _user(self, request: Request) -> str:
        token = request.headers.get("x-sfdc-session")
        if not self._context.org.settings.has_bulk_v1:
            raise AsyncError("FeatureNotEnabled", "Async API not enabled")
        try:
            user_id = self._context.authenticate(request) if token is None else self._context.sessions.user_of(token)
        except ApiError:
            user_id = None
        if user_id is None:
            raise AsyncError("InvalidSessionId", "Invalid session id")
        return user_id

    def _create(self, request: Request, body: bytes, user_id: str, version: str, *, is_json: bool) -> Response:
        if request.method != "POST":
            raise AsyncError("HttpMethodNotAllowed", "The method is not allowed", status=405)
        facts = job_request(body, is_json=is_json)
        operation, entity = facts.get("operation"), facts.get("object")
        content_type = str(facts.get("contentType") or "XML").upper()
        if operation not in _OPERATIONS:
            raise AsyncError("InvalidJob", f"Invalid operation: {operation}")
        if content_type not in _MEDIA:
            raise AsyncError(
                "InvalidJob", f"Content type {content_type} is not supported by this org: CSV and JSON are"
            )
        try:
            definition = self._context.definition(str(entity), to_read=operation in ("query", "queryAll"))
        except ApiError as error:
            code = "InvalidEntity" if error.status == 404 else "ClientInputError"
            raise AsyncError(code, f"Entity '{entity}' is not supported by the Bulk API.") from None
        if not definition.access.bulk:
            raise AsyncError("InvalidEntity", f"Entity '{definition.name}' is not supported by the Bulk API.")
        external_id = facts.get("externalIdFieldName")
        if operation == "upsert":
            try:
                external_id = self._operations.external_id_field(definition, str(external_id)).name
            except ApiError as error:
                raise AsyncError("InvalidJob", error.message) from None
        now = self._context.org.clock()
        serial = str(facts.get("concurrencyMode")) in {"1", "Serial"}
        job = AsyncJob(
            id="",
            operation=operation,
            entity=definition.name,
            content_type=content_type,
            api_version=version,
            external_id=external_id if operation == "upsert" else None,
            concurrency="Serial" if serial else "Parallel",
            created_by=user_id,
            created_at=now,
            changed_at=now,
        )
        return answer("jobInfo", job_facts(self._jobs.create(job), ()), is_json=is_json, status=201)

    def _end(self, job: AsyncJob, body: bytes, *, is_json: bool) -> Response:
        state = job_request(body, is_json=is_json).get("state")
        if state not in ("Closed", "Aborted"):
            raise AsyncError("InvalidJob", "state can only be set to Closed or Aborted")
        ended = self._jobs.end(job.id, state)
        return answer("jobInfo", job_facts(ended, self._jobs.batches(ended, looking=False)), is_json=is_json)

    def _add(self, job: AsyncJob, body: bytes) -> Response:
        self._context.count_bulk_batch()
        try:
            batch = self._jobs.add_batch(job, body.decode())
        except UnicodeDecodeError:
            raise AsyncError("InvalidBatch", "The batch must be in UTF-8") from None
        return answer("batchInfo", batch_facts(batch), is_json=job.content_type == "JSON", status=201)

    def _result(self, job: AsyncJob, batch: AsyncBatch, result_id: str | None, *, is_json: bool) -> Response:
        if batch.state != "Completed":
            raise AsyncError("InvalidBatch", f"Batch not completed: it is {batch.state}")
        name = "752" + batch.id[3:15]  # the one result of a batch
        if job.is_query and result_id is None:
            return result_list([name], is_json=is_json)
        if job.is_query and not (result_id or "").startswith(name):
            raise AsyncError("InvalidBatch", "Unable to find result")
        return StreamingResponse(self._jobs.result(batch), headers={"Content-Type": _MEDIA[job.content_type]})
