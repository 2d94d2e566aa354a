"""The routes of Bulk API 2.0 ingest jobs
(https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/api_asynch/bulk_api_2_0_ingest.htm)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.bulk_job import ENDED, asked_for
from sfcdc_assets.emulator.rest.csv_form import LINE_ENDINGS
from sfcdc_assets.emulator.rest.ingest_job import IngestJob, IngestJobs, Outcome
from sfcdc_assets.emulator.rest.record_operations import OPERATIONS, RecordOperations
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MAX_BYTES = 150_000_000


def add_bulk_ingest(context: RestContext) -> None:
    """Create, upload, list, look at, close, abort and delete jobs; read what became of the rows."""
    resource = _BulkIngestResource(context)
    job = "/jobs/ingest/{id}"
    context.add("/jobs/ingest", {"POST": resource.create, "GET": resource.all})
    context.add(job, {"GET": resource.look, "PATCH": resource.set_state, "DELETE": resource.delete})
    context.add(f"{job}/batches", {"PUT": resource.upload})
    for path, kind in (
        ("successfulResults", "successful"),
        ("failedResults", "failed"),
        ("unprocessedrecords", "unprocessed"),
    ):
        context.add(f"{job}/{path}", {"GET": resource.results(kind)})


class _BulkIngestResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._operations = RecordOperations(context)
        self._jobs = IngestJobs(context, self._work)

    def create(self, request: ApiRequest) -> Response:
        """Create the new job, which is Open."""
        document = request.json_object()
        entity, operation = document.get("object"), document.get("operation")
        if operation not in OPERATIONS or not isinstance(entity, str):
            raise ApiError("INVALIDJOB", f"operation must be one of {', '.join(OPERATIONS)}, and object an object")
        try:
            definition = self._context.definition(entity)
        except ApiError:
            raise ApiError("INVALIDENTITY", f"Entity '{entity}' is not supported by the Bulk API.") from None
        external_id = document.get("externalIdFieldName")
        if operation == "upsert":
            if not isinstance(external_id, str):
                raise ApiError("INVALIDJOB", "externalIdFieldName is required for an upsert")
            try:
                external_id = self._operations.external_id_field(definition, external_id).name
            except ApiError:
                message = f"InvalidField : Field name provided, {external_id} is not an External ID for {entity}"
                raise ApiError("INVALIDJOB", message) from None
        facts = asked_for(request, self._context.org.clock())
        self._context.count_bulk_batch()
        job = self._jobs.create(
            IngestJob(
                entity=definition.name,
                operation=operation,
                external_id=external_id if operation == "upsert" else None,
                **facts,
            )
        )
        return JSONResponse(_facts(job))

    def upload(self, request: ApiRequest) -> Response:
        """201; the rows are looked at when the job runs."""
        if "csv" not in request.headers.get("content-type", "text/csv"):
            raise ApiError("INVALIDCONTENTTYPE", "the content type must be text/csv", status=415)
        if len(request.body) > _MAX_BYTES:
            raise ApiError("API_ERROR", f"Uploaded data exceeds {_MAX_BYTES:,} bytes", status=413)
        try:
            data = request.body.decode()
        except UnicodeDecodeError:
            raise ApiError("InvalidBatch", "The CSV must be in UTF-8") from None
        self._jobs.upload(request.path["id"], data)
        return Response(status_code=201)

    def all(self, _request: ApiRequest) -> Response:
        """All jobs, on one page."""
        records = [_facts(job) | {"jobType": "V2Ingest"} for job in self._jobs.all()]
        return JSONResponse({"done": True, "nextRecordsUrl": None, "records": records})

    def look(self, request: ApiRequest) -> Response:
        """Return the job; looking may move it on."""
        job = self._jobs.look(request.path["id"])
        detail = {
            "jobType": "V2Ingest",
            "numberRecordsProcessed": job.processed,
            "numberRecordsFailed": job.failed,
            "apiActiveProcessingTime": 0,
            "apexProcessingTime": 0,
        }
        return JSONResponse(_facts(job) | detail | job.detail())

    def set_state(self, request: ApiRequest) -> Response:
        """Close the job for uploads, or abort it."""
        state = request.json_object().get("state")
        if state not in ("UploadComplete", "Aborted"):
            raise ApiError("INVALIDJOBSTATE", "state can only be set to UploadComplete or Aborted")
        return JSONResponse(_facts(self._jobs.set_state(request.path["id"], state)))

    def delete(self, request: ApiRequest) -> Response:
        """204."""
        self._jobs.delete(request.path["id"])
        return Response(status_code=204)

    def results(self, kind: str) -> Any:
        """Return the handler of one kind of results."""

        def handler(request: ApiRequest) -> Response:
            job = self._jobs.get(request.path["id"])
            if job.state not in ENDED:
                raise ApiError("INVALIDJOBSTATE", f"results are there when the job has ended; it is {job.state}")
            ending = LINE_ENDINGS[job.line_ending]
            text = "".join(line + ending for line in self._jobs.lines(job.id, kind))
            return Response(text, media_type="text/csv")

        return handler

    def _work(self, job: IngestJob, records: list[dict[str, Any]]) -> list[Outcome]:
        definition = self._context.definition(job.entity)
        changes = [
            self._operations.change(job.operation, lambda: definition, record, external_id=job.external_id or "Id")
            for record in records
        ]
        request = ApiRequest("POST", {"version": job.api_version}, {}, {}, b"", job.created_by, "")
        return self._operations.run(replace(request, api="bulkapi"), changes, all_or_none=False)


def _facts(job: IngestJob) -> dict[str, Any]:
    facts = job.facts()
    if job.external_id:
        facts["externalIdFieldName"] = job.external_id
    if job.state == "Open":
        facts["contentUrl"] = f"services/data/v{job.api_version}/jobs/ingest/{job.id}/batches"
    return facts
