"""Channels of events as the Tooling API makes, changes and removes them: PlatformEventChannel,
PlatformEventChannelMember, and EnrichedField, which follows from the members (docs/salesforce-streams.md, "Channels and
members")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.events.avro.event_schema import event_name
from sfcdc_assets.emulator.org.ids import instance_characters, new_id, to_18
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import ComputedRow, audit_fields
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.tooling_form import (
    CREATED,
    Row,
    metadata,
    metadata_object,
    metadata_row,
    optional_text,
    record_form,
    text,
    tooling_object,
)
from sfcdc_assets.emulator.setup.channels import Channel, ChannelMember, Kind

_CHANNEL = metadata_object("PlatformEventChannel", "0YL", ("ChannelType", "EventType"))
_MEMBER = metadata_object("PlatformEventChannelMember", "0v8", ("EventChannel", "SelectedEntity", "FilterExpression"))
_ENRICHED = tooling_object("EnrichedField", "0v9", ("ChannelMemberId", "Field"), None)
CHANNEL_OBJECTS = (_CHANNEL, _MEMBER, _ENRICHED)
_KINDS: Mapping[str, Kind] = {"data": "data", "event": "event"}


def add_channels(context: RestContext) -> None:
    """Create, read, update and delete channels and members."""
    resource = _ChannelResource(context)
    channel, member = f"/tooling/sobjects/{_CHANNEL.name}", f"/tooling/sobjects/{_MEMBER.name}"
    context.add(channel, {"POST": resource.create_channel})
    context.add(
        channel + "/{id}",
        {"GET": resource.read_channel, "PATCH": resource.update_channel, "DELETE": resource.delete_channel},
    )
    context.add(member, {"POST": resource.create_member})
    context.add(
        member + "/{id}",
        {"GET": resource.read_member, "PATCH": resource.update_member, "DELETE": resource.delete_member},
    )


class _ChannelResource:
    def __init__(self, context: RestContext) -> None:
        self._org = context.org

    def create_channel(self, request: ApiRequest) -> Response:
        """201 with the id."""
        document = request.json_object()
        given = metadata(document)
        kind = _KINDS.get(text(given, "channelType"))
        if kind is None:
            raise ApiError("FIELD_INTEGRITY_EXCEPTION", "channelType must be data or event", ("channelType",))
        channel = self._org.channels.create(text(document, "FullName"), optional_text(given, "label"), kind)
        return JSONResponse({"id": channel.id, **CREATED}, status_code=201)

    def read_channel(self, request: ApiRequest) -> Response:
        """Return the channel with its metadata."""
        channel = self._org.channels.channel(request.path["id"])
        return JSONResponse(record_form(_CHANNEL, _channel_row(self._org, channel), request))

    def update_channel(self, request: ApiRequest) -> Response:
        """204; only the label can change."""
        given, channel = metadata(request.json_object()), self._org.channels.channel(request.path["id"])
        if given.get("channelType", channel.kind) != channel.kind:
            raise ApiError("FIELD_INTEGRITY_EXCEPTION", "channelType of a channel cannot be changed", ("channelType",))
        self._org.channels.rename_label(channel.id, optional_text(given, "label") or channel.label)
        return Response(status_code=204)

    def delete_channel(self, request: ApiRequest) -> Response:
        """204; its members go with it."""
        self._org.channels.delete(request.path["id"])
        return Response(status_code=204)

    def create_member(self, request: ApiRequest) -> Response:
        """201 with the id."""
        document = request.json_object()
        text(document, "FullName")
        given = metadata(document)
        channel, entity = text(given, "eventChannel"), self._entity(text(given, "selectedEntity"))
        member = self._org.channels.add_member(
            channel, entity, _enriched(given), optional_text(given, "filterExpression")
        )
        return JSONResponse({"id": member.id, **CREATED}, status_code=201)

    def read_member(self, request: ApiRequest) -> Response:
        """Return the member with its metadata."""
        member = self._org.channels.member(request.path["id"])
        return JSONResponse(record_form(_MEMBER, _member_row(self._org, member), request))

    def update_member(self, request: ApiRequest) -> Response:
        """204; enriched fields and filter are replaced. The definition is a whole one, as what it leaves out is gone;
        channel and object cannot change."""
        member = self._org.channels.member(request.path["id"])
        given = metadata(request.json_object())
        names = {"eventChannel": member.channel, "selectedEntity": event_name(member.entity)}
        for name, known in names.items():
            if text(given, name) != known:
                raise ApiError("FIELD_INTEGRITY_EXCEPTION", f"{name} of a member cannot be changed", (name,))
        self._org.channels.enrich(member.id, _enriched(given))
        self._org.channels.filter_events(member.id, optional_text(given, "filterExpression"))
        return Response(status_code=204)

    def delete_member(self, request: ApiRequest) -> Response:
        """204."""
        self._org.channels.remove_member(request.path["id"])
        return Response(status_code=204)

    def _entity(self, name: str) -> str:
        for entity in (*self._org.definitions, *self._org.platform_events.all):
            if event_name(entity) == name and entity not in self._org.hidden_objects:
                return entity
        raise ApiError("INVALID_CROSS_REFERENCE_KEY", f"there are no events {name}", ("selectedEntity",))


def channel_rows(org: EmulatedOrg, definition: ObjectDefinition) -> Sequence[ComputedRow]:
    """Return the rows of one of the objects, for queries."""
    if definition is _CHANNEL:
        return [_channel_row(org, channel) for channel in org.channels.all()]
    members = org.channels.members()
    if definition is _MEMBER:
        return [_member_row(org, member) for member in members]
    pairs = [(member, name) for member in members for name in member.enriched_fields]
    return [_enriched_row(org, number, member, name) for number, (member, name) in enumerate(pairs, 1)]


def _channel_row(org: EmulatedOrg, channel: Channel) -> Row:
    facts: Row = {"ChannelType": channel.kind, "EventType": None}
    given = {"channelType": channel.kind, "label": channel.label}
    # A channel's developer name goes without the suffix of its name (https://developer.salesforce.com/docs/
    # atlas.en-us.api_tooling.meta/api_tooling/tooling_api_objects_platformeventchannel.htm).
    name = channel.name.removesuffix("__chn")
    return (
        audit_fields(org, channel.id, channel.created) | metadata_row(name, channel.name, channel.label, given) | facts
    )


def _member_row(org: EmulatedOrg, member: ChannelMember) -> Row:
    entity = event_name(member.entity)
    channel = next((each.id for each in org.channels.all() if each.name == member.channel), member.channel)
    facts: Row = {"EventChannel": channel, "SelectedEntity": entity, "FilterExpression": member.filter_expression}
    given = {
        "eventChannel": member.channel,
        "selectedEntity": entity,
        "enrichedFields": [{"name": name} for name in member.enriched_fields],
        "filterExpression": member.filter_expression,
    }
    name = member.developer_name
    modified = member.modified // 1000 * 1000
    stamps: Row = {"LastModifiedDate": modified, "SystemModstamp": modified}
    return audit_fields(org, member.id, member.created) | stamps | metadata_row(name, name, entity, given) | facts


def _enriched_row(org: EmulatedOrg, number: int, member: ChannelMember, name: str) -> Row:
    """Return the row of an enriched field; a standard field is named, a custom one is given by its id."""
    field = org.definitions[member.entity].field(name)
    facts: Row = {"ChannelMemberId": member.id, "Field": to_18(field.field_id) if field and field.field_id else name}
    return {**audit_fields(org, new_id("0v9", instance_characters(org.seed), number), member.created), **facts}


def _enriched(given: Mapping[str, Any]) -> list[str]:
    fields = given.get("enrichedFields") or []
    if not isinstance(fields, list) or not all(isinstance(one, dict) for one in fields):
        raise ApiError("JSON_PARSER_ERROR", "enrichedFields must be a list of objects with a name")
    return [text(one, "name") for one in fields]
