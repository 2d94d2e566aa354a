"""PushTopic and StreamingChannel as objects by REST, and the resource that pushes to a channel (Streaming API Developer
Guide, "PushTopic", "StreamingChannel", "Streaming Channel Push")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import ComputedRow, audit_fields, computed_object
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.streaming.push_topic import PushTopic
from sfcdc_assets.emulator.streaming.streaming_channels import StreamingChannel

_TEXT, _TRUTH = {"type": "string"}, {"type": "boolean"}
_OPERATIONS = tuple(f"NotifyForOperation{each}" for each in ("Create", "Update", "Delete", "Undelete"))
PUSH_TOPIC = computed_object(
    "PushTopic",
    "0IF",
    {
        "Name": _TEXT,
        "Query": _TEXT,
        "ApiVersion": {"type": "double"},
        "IsActive": _TRUTH,
        "NotifyForFields": _TEXT,
        "NotifyForOperations": _TEXT,
        "Description": _TEXT,
        **dict.fromkeys(_OPERATIONS, _TRUTH),
    },
    "Name",
)
STREAMING_CHANNEL = computed_object(
    "StreamingChannel", "0M6", {"Name": _TEXT, "Description": _TEXT, "IsDynamic": _TRUTH, "OwnerId": _TEXT}, "Name"
)
STREAMING_OBJECTS = {each.name: each for each in (PUSH_TOPIC, STREAMING_CHANNEL)}


def streaming_rows(context: RestContext, service: CometdService, definition: ObjectDefinition) -> Sequence[ComputedRow]:
    """Return the rows of one of the objects, for SOQL. Raises ApiError INSUFFICIENT_ACCESS."""
    context.check_readable(definition)
    if definition is PUSH_TOPIC:
        return [_topic_row(context, each) for each in service.topics.push_topics.all()]
    return [_channel_row(context, each) for each in service.topics.channels.all()]


def add_streaming_objects(context: RestContext, service: CometdService) -> None:
    """Create, read, change and delete both; `GET` and `POST .../StreamingChannel/{id}/push`."""
    topics, channels = service.topics.push_topics, service.topics.channels
    _add_object(
        context,
        "PushTopic",
        topics.create,
        topics.update,
        topics.delete,
        lambda key: _topic_row(context, topics.get(key)),
    )
    _add_object(
        context,
        "StreamingChannel",
        channels.create,
        channels.update,
        channels.delete,
        lambda key: _channel_row(context, channels.get(key)),
    )

    def who_listens(request: ApiRequest) -> Response:
        channel = channels.get(request.path["id"])
        return JSONResponse({"OnlineUserIds": sorted(service.users_of(channel.id)), "ChannelName": channel.name})

    def push(request: ApiRequest) -> Response:
        channel, events = channels.get(request.path["id"]), request.json_object().get("pushEvents")
        if not isinstance(events, list):
            raise ApiError("JSON_PARSER_ERROR", "pushEvents must be a list")
        results = channels.push(channel.id, events, service.users_of(channel.id))
        service.bus.wake()
        return JSONResponse(results)

    context.add("/sobjects/StreamingChannel/{id}/push", {"GET": who_listens, "POST": push})


def _add_object(
    context: RestContext,
    name: str,
    create: Callable[[Mapping[str, Any]], PushTopic | StreamingChannel],
    update: Callable[[str, Mapping[str, Any]], object],
    delete: Callable[[str], None],
    row: Callable[[str], ComputedRow],
) -> None:
    def created(request: ApiRequest) -> Response:
        made = create(_values(request))
        return JSONResponse({"id": made.id, "success": True, "errors": []}, status_code=201)

    def read(request: ApiRequest) -> Response:
        url = f"{request.data_path}/sobjects/{name}/{request.path['id']}"
        shown = _shown(row(request.path["id"]), _TRUTHS[name])
        return JSONResponse({"attributes": {"type": name, "url": url}, **shown})

    def updated(request: ApiRequest) -> Response:
        update(request.path["id"], _values(request))
        return Response(status_code=204)

    def deleted(request: ApiRequest) -> Response:
        delete(request.path["id"])
        return Response(status_code=204)

    context.add(f"/sobjects/{name}", {"POST": created})
    context.add(f"/sobjects/{name}/{{id}}", {"GET": read, "PATCH": updated, "DELETE": deleted})


_TRUTHS = {"PushTopic": {"IsActive", "IsDeleted", *_OPERATIONS}, "StreamingChannel": {"IsDynamic", "IsDeleted"}}


def _shown(row: ComputedRow, truths: Collection[str]) -> dict[str, Any]:
    return {name: bool(value) if name in truths else value for name, value in row.items()}


def _values(request: ApiRequest) -> dict[str, Any]:
    return {name: value for name, value in request.json_object().items() if name != "attributes"}


def _topic_row(context: RestContext, topic: PushTopic) -> ComputedRow:
    values = topic.values
    creates, updates = values["NotifyForOperationCreate"], values["NotifyForOperationUpdate"]
    known = {(True, True): "All", (True, False): "Create", (False, True): "Update"}
    operations = known.get((creates, updates), "Extended")
    truths = {name: int(values[name]) for name in ("IsActive", *_OPERATIONS)}
    return {
        **audit_fields(context.org, topic.id, topic.created),
        **values,
        **truths,
        "ApiVersion": float(values["ApiVersion"]),
        "NotifyForOperations": operations,
    }


def _channel_row(context: RestContext, channel: StreamingChannel) -> ComputedRow:
    return {
        **audit_fields(context.org, channel.id, channel.created),
        "Name": channel.name,
        "Description": channel.description,
        "IsDynamic": int(channel.is_dynamic),
        "OwnerId": context.org.users.integration,
    }
