"""`eventSchema`, by name and by id: the schema of change events and platform events as JSON
(https://developer.salesforce.com/docs/platform/ api-rest/guide/resources-sobject-eventschema.html).

COMPACT is the Avro record of the Pub/Sub API. EXPANDED, the default, is that of the JSON messages of the Streaming API:
moments are text, and the header has no bitmaps.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.events.avro.event_schema import change_event_name
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

_MOMENTS = (":DateTime", ":DateOnly", ":TimeOnly")
_NOT_IN_JSON = {"nulledFields", "diffFields"}


class EventSchemas(Protocol):
    """The schemas of the org's events, such as its event bus keeps them."""

    def newest_schema_id(self, entity: str) -> str:
        """Return the id of the schema in which an entity's next event will be."""

    def schema_json(self, schema_id: str) -> str | None:
        """Return a schema that is or once was in use; None if there never was one of that id."""


def add_event_schemas(context: RestContext, schemas: EventSchemas) -> None:
    """Add both resources."""

    def by_name(request: ApiRequest) -> Response:
        name = request.path["event"]
        event = context.platform_event(name)
        if event is not None:
            return _answer(request, schemas, schemas.newest_schema_id(event.name))
        for entity, definition in context.org.definitions.items():
            is_named = definition.has_change_events and change_event_name(entity).lower() == name.lower()
            if is_named and entity not in context.org.hidden_objects:
                return _answer(request, schemas, schemas.newest_schema_id(entity))
        raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)

    def by_id(request: ApiRequest) -> Response:
        return _answer(request, schemas, request.path["id"])

    context.add("/sobjects/{event}/eventSchema", {"GET": by_name})
    context.add("/event/eventSchema/{id}", {"GET": by_id})


def _answer(request: ApiRequest, schemas: EventSchemas, schema_id: str) -> Response:
    text = schemas.schema_json(schema_id)
    if text is None:
        raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
    schema = json.loads(text)
    match request.query.get("payloadFormat", "EXPANDED").upper():
        case "COMPACT":
            facts = {name: schema[name] for name in ("name", "namespace", "type", "fields")}
        case "EXPANDED":
            facts = _expanded(schema)
        case other:
            raise ApiError("INVALID_INPUT", f"payloadFormat must be EXPANDED or COMPACT, not {other}")
    return JSONResponse({**facts, "uuid": schema_id})


def _expanded(schema: dict[str, Any]) -> dict[str, Any]:
    payload = {"type": "record", "name": "Payload", "doc": "", "fields": [_in_json(each) for each in schema["fields"]]}
    event = {"type": "record", "name": "Event", "fields": [{"name": "replayId", "type": "long"}]}
    data = [
        {"name": "schema", "type": "string"},
        {"name": "payload", "type": payload},
        {"name": "event", "type": event},
    ]
    return {
        "name": schema["name"],
        "namespace": schema["namespace"],
        "type": "expanded-record",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "namespace": "", "fields": data}},
            {"name": "channel", "type": "string"},
        ],
    }


def _in_json(field: dict[str, Any]) -> dict[str, Any]:
    if field["name"] == "ChangeEventHeader":
        header = field["type"]
        kept = [each for each in header["fields"] if each["name"] not in _NOT_IN_JSON]
        return {**field, "type": {**header, "fields": kept}}
    if any(moment in field.get("doc", "") for moment in _MOMENTS):
        return {**field, "type": ["null", "string"] if isinstance(field["type"], list) else "string"}
    return field
