"""What reads the events of a channel, with what it has to ask the org for: schemas, and descriptions of objects."""

from __future__ import annotations

import json
from collections.abc import Callable

from sfcdc_assets import clock
from sfcdc_assets.channel_kinds import ChannelKind, folder_of, kind_of, own_name
from sfcdc_assets.lake.schemas import EventSchema, Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.push_topics.errors import TopicNotSupported, TopicsNotReadable
from sfcdc_assets.push_topics.org_topics import org_topics
from sfcdc_assets.push_topics.topic_query import topic_query
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.streams.errors import SchemaNotFound
from sfcdc_assets.typed_events.generic import GenericReader
from sfcdc_assets.typed_events.platform_event import PlatformEventReader
from sfcdc_assets.typed_events.push_topic import PushTopicReader
from sfcdc_assets.typed_events.typed_event import EventReader


def event_reader(warehouse: Warehouse, org: OrgConnection, channel: str) -> EventReader:
    """The reader of a channel that carries no change events. Asks for nothing yet."""
    kind = kind_of(channel)
    if kind is ChannelKind.GENERIC:
        return GenericReader(folder_of(channel), org.payload_schemas.get(channel), org.privacy)
    if kind is ChannelKind.PUSH_TOPIC:
        return push_topic_reader(org, channel)
    return PlatformEventReader(_schemas_of(warehouse, org), org.privacy)


def push_topic_reader(org: OrgConnection, channel: str) -> PushTopicReader:
    """Of a topic's channel."""
    return PushTopicReader(lambda: _object_of_topic(org, own_name(channel)), org.privacy)


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
        topics = org_topics(org.session, name)
        entity = topic_query(topics[0].topic.query).entity if topics else None
    except (TopicsNotReadable, TopicNotSupported):
        return None
    described = org.describe_json(entity) if entity else None
    return None if described is None else ObjectDescription.from_json(json.loads(described))
