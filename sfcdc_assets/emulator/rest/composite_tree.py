"""`composite/tree/X`: up to 200 records with their children, created in one transaction or not at all
(https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/resources_composite_sobject_tree.htm)."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.relationships import child_relationship
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.record_operations import record_values
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MAX_RECORDS = 200
_MAX_DEPTH = 5


class _FailedError(Exception):
    """Leaves the transaction so that it is rolled back."""


def add_composite_tree(context: RestContext) -> None:
    """Add the one resource."""

    def create(request: ApiRequest) -> Response:
        definition = context.definition(request.path["object"])
        records = _records(request.echoed_json_object())
        tree = _Tree(context)
        tree.check_names(records)
        try:
            with context.transaction(request) as unit_of_work:
                tree.create(unit_of_work, definition, records, {}, 1)
                if tree.errors:
                    raise _FailedError
        except _FailedError:
            return JSONResponse({"hasErrors": True, "results": tree.errors}, status_code=400)
        return JSONResponse({"hasErrors": False, "results": tree.created}, status_code=201)

    context.add("/composite/tree/{object}", {"POST": create})


class _Tree:
    def __init__(self, context: RestContext) -> None:
        self._context = context
        self.created: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []

    def check_names(self, records: list[dict[str, Any]]) -> None:
        """Raise ApiError for too many records and for a referenceId that is missing or there twice."""
        names: list[str] = []
        waiting = list(records)
        while waiting:
            record = waiting.pop()
            names.append(_reference_id(record))
            waiting.extend(child for value in record.values() if _is_children(value) for child in _records(value))
        if len(names) > _MAX_RECORDS:
            raise ApiError("INVALID_INPUT", f"The tree has {len(names)} records; the most is {_MAX_RECORDS}")
        if len(set(names)) < len(names):
            raise ApiError("INVALID_INPUT", "Duplicate ReferenceId provided in the request")

    def create(
        self,
        unit_of_work: UnitOfWork,
        definition: ObjectDefinition,
        records: list[dict[str, Any]],
        parent: dict[str, str],
        depth: int,
    ) -> None:
        """Create the records, then the children of each. `parent` holds the reference to the record above."""
        if depth > _MAX_DEPTH:
            raise ApiError("INVALID_INPUT", f"The tree has more than {_MAX_DEPTH} levels")
        for record in records:
            children = {name: value for name, value in record_values(record).items() if _is_children(value)}
            values = {name: value for name, value in record_values(record).items() if name not in children}
            try:
                record_id = unit_of_work.create(definition.name, {**values, **parent})
            except ApiError as error:
                fact = {"statusCode": error.error_code, "message": error.message, "fields": list(error.fields)}
                self.errors.append({"referenceId": _reference_id(record), "errors": [fact]})
                continue
            self.created.append({"referenceId": _reference_id(record), "id": record_id})
            for name, value in children.items():
                below = child_relationship(definition, self._context.org.definitions, name)
                if below is None:
                    message = f"No such relation '{name}' on sobject of type {definition.name}"
                    raise ApiError("INVALID_FIELD", message, (name,))
                child = self._context.definition(below.child.name)
                self.create(unit_of_work, child, _records(value), {below.field.name: record_id}, depth + 1)


def _is_children(value: object) -> bool:
    return isinstance(value, dict) and "records" in value


def _records(document: dict[str, Any]) -> list[dict[str, Any]]:
    records = document.get("records")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ApiError("JSON_PARSER_ERROR", "records must be a list of objects")
    return records


def _reference_id(record: dict[str, Any]) -> str:
    attributes = record.get("attributes")
    name = attributes.get("referenceId") if isinstance(attributes, dict) else None
    if not isinstance(name, str) or not name:
        raise ApiError("INVALID_INPUT", "Include a reference ID for each record in the request.")
    return name
