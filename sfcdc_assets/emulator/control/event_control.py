"""Platform events: their definitions, and the oracle's log of what was published."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text, whole_number
from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets.emulator.errors import ObjectDefinitionError
from sfcdc_assets.emulator.events.platform_events.event_publishing import EventPublisher
from sfcdc_assets.emulator.org.org import EmulatedOrg


def event_routes(org: EmulatedOrg, publisher: EventPublisher) -> list[Route]:
    """`POST /emulator/platform-events` with what a definition file holds adds an event, or replaces one.

    `POST /emulator/platform-events/{event}/fields {"name": "X__c", "type": ...}` adds a field, and
    `DELETE .../fields/{field}` drops one: the next message has another schema.
    `GET /emulator/platform-events?after=N&limit=N` is the oracle: what was published, with its values, null where a
    payload cannot be read.
    """

    def log(parameters: Parameters) -> Any:
        after, limit = whole_number(parameters, "after", 0), whole_number(parameters, "limit", 100)
        return [
            {
                "number": each.number,
                "name": each.name,
                "event_id": each.event_id,
                "replay_id": each.replay_id.hex(),
                "schema_id": each.schema_id,
                "published_at": each.published_at,
                "published_by": each.published_by,
                "values": each.values,
            }
            for each in publisher.published(after, limit)
        ]

    def define(parameters: Parameters) -> Any:
        try:
            definition = event_definition(parameters)
        except ObjectDefinitionError as error:
            raise ControlError(str(error)) from None
        org.platform_events.define(definition)
        return {"events": sorted(org.platform_events.all)}

    def add_field(parameters: Parameters) -> Any:
        event, name = text(parameters, "event"), text(parameters, "name")
        options = {key: value for key, value in parameters.items() if key not in ("event", "name")}
        try:
            org.platform_events.add_field(event, name, options)
        except ObjectDefinitionError as error:
            raise ControlError(str(error)) from None
        return {"schema_id": org.platform_events.codec(event).schema_id}

    def drop_field(parameters: Parameters) -> Any:
        event = text(parameters, "event")
        org.platform_events.drop_field(event, text(parameters, "field"))
        return {"schema_id": org.platform_events.codec(event).schema_id}

    path = "/platform-events"
    return [
        control_route(path, "GET", log),
        control_route(path, "POST", define),
        control_route(f"{path}/{{event}}/fields", "POST", add_field),
        control_route(f"{path}/{{event}}/fields/{{field}}", "DELETE", drop_field),
    ]
