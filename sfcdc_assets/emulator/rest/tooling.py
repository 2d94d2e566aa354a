"""The Tooling API: SOQL over its objects, and what they are; the objects are modules of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import ComputedObjects, ComputedRow
from sfcdc_assets.emulator.rest.describe import field_json, object_json
from sfcdc_assets.emulator.rest.query import compile_over
from sfcdc_assets.emulator.rest.query_columns import asks_for_columns, query_columns
from sfcdc_assets.emulator.rest.record_json import record_json
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.tooling_channels import CHANNEL_OBJECTS, add_channels, channel_rows
from sfcdc_assets.emulator.rest.tooling_form import OF_ONE_ROW
from sfcdc_assets.emulator.rest.tooling_managed import MANAGED, add_managed_subscriptions, managed_rows

_OBJECTS = {definition.name: definition for definition in (*CHANNEL_OBJECTS, MANAGED)}


def add_tooling(context: RestContext) -> None:
    """Add the routes."""
    resource = _ToolingResource(context)
    context.add("/tooling/query", {"GET": resource.query})
    context.add("/tooling/sobjects", {"GET": resource.all_objects})
    context.add("/tooling/sobjects/{object}/describe", {"GET": resource.describe})
    add_channels(context)
    add_managed_subscriptions(context)


class _ToolingResource:
    def __init__(self, context: RestContext) -> None:
        self._context, self._org = context, context.org
        self._computed = context.setup | ComputedObjects(_OBJECTS, self._rows)

    def _rows(self, definition: ObjectDefinition) -> Sequence[ComputedRow]:
        return managed_rows(self._org) if definition is MANAGED else channel_rows(self._org, definition)

    def query(self, request: ApiRequest) -> Response:
        """SOQL over the Tooling API's own objects, those of Setup, and users."""
        text = request.query.get("q")
        if not text:
            raise ApiError("MALFORMED_QUERY", "A query string has to be specified")
        visible = self._org.field_security.visible_definitions
        users = {name: visible[name] for name in ("User",) if name in visible}
        with self._org.rest_view.shown():
            compiled = compile_over(self._context, text, users, self._computed)
            if asks_for_columns(request):
                return JSONResponse(query_columns(compiled))
            found = self._org.rest_view.rows(compiled.sql, compiled.parameters)
        definition = compiled.definition
        if compiled.query.is_count:
            return JSONResponse({"totalSize": found[0][0], "size": found[0][0], "done": True, "records": []})
        if len(found) > 1 and any(each.field.name in OF_ONE_ROW for each in compiled.selected):
            message = "When retrieving results with Metadata or FullName fields, the query qualifications must specify "
            raise ApiError("MALFORMED_QUERY", f"{message}no more than one row for retrieval. Result size: {len(found)}")
        records = [record_json(compiled, row, f"{request.data_path}/tooling") for row in found]
        for record in records:
            if isinstance(record.get("Metadata"), str):
                record["Metadata"] = json.loads(record["Metadata"])
        body = {"size": len(records), "totalSize": len(records), "done": True, "queryLocator": None}
        return JSONResponse(body | {"entityTypeName": definition.name, "records": records})

    def all_objects(self, request: ApiRequest) -> Response:
        """Return the objects that `tooling/sobjects` has."""
        path = f"{request.data_path}/tooling"
        objects = [object_json(_OBJECTS[name], path) for name in sorted(_OBJECTS)]
        return JSONResponse({"encoding": "UTF-8", "maxBatchSize": 200, "sobjects": objects})

    def describe(self, request: ApiRequest) -> Response:
        """One of them with its fields."""
        found = next((each for each in _OBJECTS.values() if each.name.lower() == request.path["object"].lower()), None)
        if found is None:
            raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
        fields = [field_json(field, found.name_field) for field in found.fields]
        body = object_json(found, f"{request.data_path}/tooling")
        return JSONResponse({**body, "fields": fields, "childRelationships": [], "recordTypeInfos": []})
