"""Many records at once: `composite/sobjects` changes up to 200 in one transaction, `composite/sobjects/X/Y` upserts as
many by an external id, `composite/sobjects/X` reads up to 2,000."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.record_fields import chosen_fields, read_records
from sfcdc_assets.emulator.rest.record_operations import RecordOperations
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MAX_CHANGES = 200
_MAX_READS = 2000  # beyond OrgSettings.most_ids_in_retrieve it is a 414 before
_MAX_URL = 16_384


def add_composite_sobjects(context: RestContext) -> None:
    """Add the routes of record collections."""
    resource = _CollectionResource(context)
    context.add("/composite/sobjects", {"POST": resource.create, "PATCH": resource.update, "DELETE": resource.delete})
    context.add("/composite/sobjects/{object}", {"GET": resource.read_by_url, "POST": resource.read_by_body})
    context.add("/composite/sobjects/{object}/{field}", {"PATCH": resource.upsert})


class _CollectionResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self._operations = RecordOperations(context)

    def create(self, request: ApiRequest) -> Response:
        """Create records; return a list of results in the order of `records`."""
        return self._run(request, "insert")

    def update(self, request: ApiRequest) -> Response:
        """Update records; return a list of results in the order of `records`, each of which has an `id`."""
        return self._run(request, "update")

    def upsert(self, request: ApiRequest) -> Response:
        """Upsert records; return a list of results in the order of `records`, each of which says whether its record was
        created."""
        definition = self._context.definition(request.path["object"])
        field = self._operations.external_id_field(definition, request.path["field"])
        return self._run(request, "upsert", field.name)

    def delete(self, request: ApiRequest) -> Response:
        """Delete records; return a list of results in the order of `?ids=`."""
        ids = [record_id for record_id in request.query.get("ids", "").split(",") if record_id]
        _check_number(len(ids), _MAX_CHANGES)
        all_or_none = request.query.get("allOrNone", "false").lower() == "true"
        changes = [self._operations.deletion(record_id) for record_id in ids]
        return JSONResponse(self._operations.run(request, changes, all_or_none=all_or_none))

    def read_by_url(self, request: ApiRequest) -> Response:
        """Return records of `?ids=` in that order, null where there is none; 414 for a list too long for a URL."""
        ids, fields = request.query.get("ids", ""), request.query.get("fields", "")
        if len(ids) + len(fields) > _MAX_URL:
            raise ApiError("URI_TOO_LONG", "URI Too Long; send the ids in the body of a POST", status=414)
        return self._read(request, [item for item in ids.split(",") if item], fields.split(",") if fields else [])

    def read_by_body(self, request: ApiRequest) -> Response:
        """Return records of `ids` in that order, null where there is none."""
        document = request.json_object()
        ids, fields = document.get("ids"), document.get("fields")
        if not _is_texts(ids) or not _is_texts(fields):
            raise ApiError("JSON_PARSER_ERROR", "ids and fields must be lists of strings")
        return self._read(request, ids or [], fields or [])

    def _read(self, request: ApiRequest, ids: Sequence[str], names: Sequence[str]) -> Response:
        definition = self._context.definition(request.path["object"], to_read=True)
        if not definition.access.retrieveable:
            message = f"entity type {definition.name} does not support retrieve"
            raise ApiError("INVALID_TYPE_FOR_OPERATION", message)
        _check_number(len(ids), _MAX_READS)
        if len(ids) > self._context.org.settings.most_ids_in_retrieve:
            raise ApiError("URI_TOO_LONG", "URI Too Long; ask for fewer records at once", status=414)
        if not names:
            raise ApiError("INVALID_FIELD", "at least one field must be named")
        fields = chosen_fields(definition, names)
        found = read_records(self._context, definition, ids, fields, request.data_path)
        return JSONResponse([found.get(to_18(record_id)) for record_id in ids])

    def _run(self, request: ApiRequest, operation: str, external_id: str = "Id") -> Response:
        document = request.json_object()
        changes = [
            self._operations.insertion(request, record)
            if operation == "insert"
            else self._operations.change(
                operation, partial(self._operations.definition_of, record), record, external_id=external_id
            )
            for record in _records(document)
        ]
        all_or_none = bool(document.get("allOrNone", False))
        return JSONResponse(self._operations.run(request, changes, all_or_none=all_or_none))


def _records(document: dict[str, Any]) -> list[dict[str, Any]]:
    records = document.get("records")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ApiError("JSON_PARSER_ERROR", "records must be a list of objects")
    _check_number(len(records), _MAX_CHANGES)
    return records


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_number(number: int, most: int) -> None:
    if number > most:
        message = f"record limit reached. cannot submit more than {most} records in this call"
        raise ApiError("EXCEEDED_ID_LIMIT", message)
