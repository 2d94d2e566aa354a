"""What reads the events of a channel, with what it has to ask the org for: schemas, and descriptions of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from sfcdc_assets import clock
from sfcdc_assets.channel_kinds import ChannelKind, folder_of, kind_of, own_name
from sfcdc_assets.lake.schemas import EventSchema, Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.errors import QueryRefused
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.streams.errors import SchemaNotFound
from sfcdc_assets.typed_events.generic import GenericReader
from sfcdc_assets.typed_events.platform_event import PlatformEventReader
from sfcdc_assets.typed_events.push_topic import PushTopicReader
from sfcdc_assets.typed_events.typed_event import EventReader

_FROM = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)


def event_reader(warehouse: Warehouse, org: OrgConnection, channel: str) -> EventReader:
    """The reader of a channel that carries no change events. Asks for nothing yet."""
    kind = kind_of(channel)
    if kind is ChannelKind.GENERIC:
        return GenericReader(folder_of(channel), org.payload_schemas.get(channel), org.privacy)
    if kind is ChannelKind.PUSH_TOPIC:
        return PushTopicReader(lambda: _object_of_topic(org, own_name(channel)), org.privacy)
    return PlatformEventReader(_schemas_of(warehouse, org), org.privacy)


def _schemas_of(warehouse: Warehouse, org: OrgConnection) -> Callable[[str], str | None]:
    """Schemas are asked for once, and kept in `schemas` for ever: old events can be read again without the org."""
    schemas = Schemas(warehouse)

    def schema_json(schema_id: str) -> str | None:
        known = schemas.get(schema_id)
        if known is None and schema_id:
            try:
                text = org.transport.schema(schema_id)
            except SchemaNotFound:
                return None
            known = EventSchema(schema_id, text, str(json.loads(text).get("name", "")), clock.now_ms(), None)
            schemas.add(known)
        return None if known is None else known.schema_json

    return schema_json


def _object_of_topic(org: OrgConnection, name: str) -> ObjectDescription | None:
    """The object that a PushTopic's query is about; None where the org does not tell this user."""
    try:
        rows = list(query_rows(org.session, f"SELECT Query FROM PushTopic WHERE Name = '{name}'"))
    except QueryRefused:
        return None
    found = _FROM.search(str(rows[0]["Query"])) if rows else None
    described = org.describe_json(found[1]) if found else None
    return None if described is None else ObjectDescription.from_json(json.loads(described))
