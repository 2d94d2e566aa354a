"""Many records at once: `composite/sobjects` changes up to 200 in one transaction, `composite/sobjects/X` reads up
to 2,000."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError, RecordError
from sfcdc_assets.emulator.ids import to_18
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.record_fields import chosen_fields, read_records
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.sobjects import record_values
from sfcdc_assets.emulator.unit_of_work import UnitOfWork

_MAX_CHANGES = 200
_MAX_READS = 2000  # beyond OrgSettings.most_ids_in_retrieve it is a 414 before
_MAX_URL = 16_384

Change = Callable[[UnitOfWork], str]
"""Makes one record's change and returns its id; raises ApiError."""


class _AllOrNoneFailedError(Exception):
    """Leaves the transaction so that it is rolled back; the results tell why."""


def add_composite_sobjects(context: RestContext) -> None:
    """The routes of record collections."""
    resource = _CollectionResource(context)
    context.add("/composite/sobjects", {"POST": resource.create, "PATCH": resource.update, "DELETE": resource.delete})
    context.add("/composite/sobjects/{object}", {"GET": resource.read_by_url, "POST": resource.read_by_body})


class _CollectionResource:
    def __init__(self, context: RestContext) -> None:
        self._context = context

    def create(self, request: ApiRequest) -> Response:
        """A list of results in the order of `records`."""
        document = request.json_object()
        changes = [self._creation(record) for record in _records(document)]
        return self._run(request, changes, all_or_none=bool(document.get("allOrNone", False)))

    def update(self, request: ApiRequest) -> Response:
        """A list of results in the order of `records`, each of which has an `id`."""
        document = request.json_object()
        changes = [self._update(record) for record in _records(document)]
        return self._run(request, changes, all_or_none=bool(document.get("allOrNone", False)))

    def delete(self, request: ApiRequest) -> Response:
        """A list of results in the order of `?ids=`."""
        ids = [record_id for record_id in request.query.get("ids", "").split(",") if record_id]
        _check_number(len(ids), _MAX_CHANGES)
        changes = [self._deletion(record_id) for record_id in ids]
        return self._run(request, changes, all_or_none=request.query.get("allOrNone", "false").lower() == "true")

    def read_by_url(self, request: ApiRequest) -> Response:
        """Records of `?ids=` in that order, null where there is none; 414 for a list too long for a URL."""
        ids, fields = request.query.get("ids", ""), request.query.get("fields", "")
        if len(ids) + len(fields) > _MAX_URL:
            raise ApiError("URI_TOO_LONG", "URI Too Long; send the ids in the body of a POST", status=414)
        return self._read(request, [item for item in ids.split(",") if item], fields.split(",") if fields else [])

    def read_by_body(self, request: ApiRequest) -> Response:
        """Records of `ids` in that order, null where there is none."""
        document = request.json_object()
        ids, fields = document.get("ids"), document.get("fields")
        if not _is_texts(ids) or not _is_texts(fields):
            raise ApiError("JSON_PARSER_ERROR", "ids and fields must be lists of strings")
        return self._read(request, ids or [], fields or [])

    def _read(self, request: ApiRequest, ids: Sequence[str], names: Sequence[str]) -> Response:
        definition = self._context.definition(request.path["object"], to_read=True)
        _check_number(len(ids), _MAX_READS)
        if len(ids) > self._context.org.settings.most_ids_in_retrieve:
            raise ApiError("URI_TOO_LONG", "URI Too Long; ask for fewer records at once", status=414)
        if not names:
            raise ApiError("INVALID_FIELD", "at least one field must be named")
        fields = chosen_fields(definition, names)
        found = read_records(self._context, definition, ids, fields, request.data_path)
        return JSONResponse([found.get(to_18(record_id)) for record_id in ids])

    def _creation(self, record: dict[str, Any]) -> Change:
        return lambda unit_of_work: unit_of_work.create(self._entity(record), record_values(record))

    def _update(self, record: dict[str, Any]) -> Change:
        def change(unit_of_work: UnitOfWork) -> str:
            record_id = next((str(value) for name, value in record.items() if name.lower() == "id"), None)
            if record_id is None:
                raise RecordError("MISSING_ARGUMENT", "Id not specified in an update call")
            values = {name: value for name, value in record_values(record).items() if name.lower() != "id"}
            unit_of_work.update(self._entity(record), record_id, values)
            return to_18(record_id)

        return change

    def _deletion(self, record_id: str) -> Change:
        def change(unit_of_work: UnitOfWork) -> str:
            entity = next(
                (d.name for d in self._context.org.definitions.values() if record_id.startswith(d.key_prefix)), None
            )
            if entity is None:
                raise RecordError("MALFORMED_ID", f"malformed id {record_id}")
            unit_of_work.delete(self._context.definition(entity).name, record_id)
            return to_18(record_id)

        return change

    def _entity(self, record: dict[str, Any]) -> str:
        attributes = record.get("attributes")
        name = attributes.get("type") if isinstance(attributes, dict) else None
        if not isinstance(name, str):
            raise RecordError("INVALID_INPUT", "attributes.type must name the object")
        try:
            return self._context.definition(name).name
        except ApiError:
            raise RecordError("INVALID_TYPE", f"sObject type '{name}' is not supported.") from None

    def _run(self, request: ApiRequest, changes: Sequence[Change], *, all_or_none: bool) -> Response:
        results: list[dict[str, Any]] = []
        try:
            with self._context.transaction(request) as unit_of_work:
                for change in changes:
                    try:
                        results.append({"id": change(unit_of_work), "success": True, "errors": []})
                    except ApiError as error:
                        results.append(_failure(error))
                if all_or_none and not all(result["success"] for result in results):
                    raise _AllOrNoneFailedError
        except _AllOrNoneFailedError:
            rolled_back = RecordError(
                "ALL_OR_NONE_OPERATION_ROLLED_BACK",
                "Record rolled back because not all records were valid and the request was using AllOrNone header",
            )
            results = [_failure(rolled_back) if result["success"] else result for result in results]
        return JSONResponse(results)


def _failure(error: ApiError) -> dict[str, Any]:
    # In a collection a record that is not there is a bad reference, not a missing resource.
    not_found = error.error_code == "NOT_FOUND"
    return {
        "success": False,
        "errors": [
            {
                "statusCode": "INVALID_CROSS_REFERENCE_KEY" if not_found else error.error_code,
                "message": "invalid cross reference id" if not_found else error.message,
                "fields": list(error.fields),
            }
        ],
    }


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
