"""Schemas of events by REST: `event/eventSchema/{id}` and `sobjects/{event}/eventSchema` (docs/salesforce-streams.md,
"Topics and schemas").

Field-level security does not count here. The form EXPANDED, which is the default, describes JSON; nobody has asked the
emulated org for it yet.
"""

from __future__ import annotations

import json

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.avro.event_schema import change_event_name
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext


def add_event_schemas(context: RestContext, bus: EventBus) -> None:
    """Serve the schemas that the bus knows, in the form COMPACT."""
    org = context.org

    def by_id(request: ApiRequest) -> Response:
        return _schema(request, bus, request.path["schema"])

    def by_event(request: ApiRequest) -> Response:
        wanted = request.path["event"]
        for entity in org.definitions:
            if change_event_name(entity).lower() == wanted.lower() and entity not in org.hidden_objects:
                return _schema(request, bus, bus.newest_schema_id(entity))
        raise _not_found()

    context.add("/event/eventSchema/{schema}", {"GET": by_id})
    context.add("/sobjects/{event}/eventSchema", {"GET": by_event})


def _schema(request: ApiRequest, bus: EventBus, schema_id: str) -> Response:
    if request.query.get("payloadFormat", "EXPANDED").upper() != "COMPACT":
        message = "The emulated org has event schemas as payloadFormat=COMPACT only."
        raise ApiError("INVALID_QUERY_FILTER_OPERATOR", message)
    schema_json = bus.schema_json(schema_id)
    if schema_json is None:
        raise _not_found()
    return JSONResponse({**json.loads(schema_json), "uuid": schema_id})


def _not_found() -> ApiError:
    return ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
