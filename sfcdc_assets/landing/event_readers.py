"""What reads the events of a channel, with what it has to ask the org for: schemas, and descriptions of objects."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sfcdc_assets.change_events.errors import EventSchemaError
from sfcdc_assets.change_events.event_schema import parse_event_schema
from sfcdc_assets.event_channels.generic_event import GenericReader
from sfcdc_assets.event_channels.platform_event import PlatformEventReader
from sfcdc_assets.event_channels.push_topic_event import PushTopicReader
from sfcdc_assets.event_channels.push_topics.errors import TopicNotSupported, TopicsNotReadable
from sfcdc_assets.event_channels.push_topics.org_topics import org_topics
from sfcdc_assets.event_channels.push_topics.topic_query import topic_query
from sfcdc_assets.event_channels.typed_event import EventReader, NotKnownYet
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas, schema_of_id
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.salesforce.api_name import is_api_name
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.channel_kinds import ChannelKind, folder_of, kind_of, only_event, own_name
from sfcdc_assets.streams.errors import SchemaNotFound

log = logging.getLogger(__name__)

T = TypeVar("T")


def event_reader(warehouse: Warehouse, org: OrgConnection, channel: str) -> EventReader:
    """Return the reader of a channel that carries no change events. Asks for nothing yet."""
    kind = kind_of(channel)
    if kind is ChannelKind.GENERIC:
        return GenericReader(folder_of(channel), org.payload_schemas.get(channel), org.privacy)
    lookups = _Lookups(warehouse, channel)
    if kind is ChannelKind.PUSH_TOPIC:
        return _topic_reader(lookups, org, own_name(channel))
    return PlatformEventReader(_schemas_of(lookups, org), org.privacy, only_event(channel))


def push_topic_reader(org: OrgConnection, channel: str) -> PushTopicReader:
    """Make the reader of a topic's channel."""
    return PushTopicReader(lambda: _object_of_topic(org, own_name(channel)), org.privacy)


class _Lookups:
    """What a channel's reader has to know of the org. What cannot be had now is asked for again after pauses that grow,
    over any number of processes."""

    def __init__(self, warehouse: Warehouse, channel: str) -> None:
        self._channel = channel
        self.schemas = Schemas(warehouse, without_damaged=True)

    def ask(self, subject: str, what: str, ask: Callable[[], T]) -> T:
        """Ask, and return the answer. Raises `NotKnownYet`."""
        now_ms = clock.now_ms()
        if not self.schemas.is_due(subject, now_ms):
            raise NotKnownYet(self._channel, what)
        found = outcome_of(ask)
        if not isinstance(found, Exception):
            return found
        log.warning("%s: %s is asked for again later: %s", self._channel, what, found)
        with suppress(ConcurrentCommit):  # another process has asked in vain too
            self.schemas.add(in_vain=[subject], now_ms=now_ms)
        raise NotKnownYet(self._channel, what) from found


def _topic_reader(lookups: _Lookups, org: OrgConnection, name: str) -> PushTopicReader:
    """Which object a topic is of is kept in `schemas`, so that a process that is begun while the org gives no answer
    knows which rules of privacy its notifications have."""
    subject = f"topic:{name}"
    known = lookups.schemas.get(subject)

    def described() -> ObjectDescription | None:
        found = lookups.ask(subject, "the object of the topic", partial(_object_of_topic, org, name))
        last = lookups.schemas.get(subject)
        if found is not None:
            form = json.dumps(replace(found, fields=()).to_json())
            if last is None or last.describe_json != form:
                lookups.schemas.add(EventSchema(subject, "", subject, clock.now_ms(), form))
        return found

    return PushTopicReader(described, org.privacy, known.describe if known else None)


def _schemas_of(lookups: _Lookups, org: OrgConnection) -> Callable[[str], str | None]:
    """Schemas are asked for once, and kept in `schemas` for ever: old events can be read again without the org."""

    def fetched(schema_id: str) -> EventSchema | None:
        try:
            text = org.transport.schema(schema_id)
        except SchemaNotFound:
            return None
        schema = parse_event_schema(text)
        if not schema["fields"] or not is_api_name(schema.get("name")):
            raise EventSchemaError("it has no name or no fields")  # it would be kept for ever
        return EventSchema(schema_id, text, str(schema["name"]), clock.now_ms(), None)

    def schema_json(schema_id: str) -> str | None:
        known = lookups.schemas.get(schema_id)
        if known is None and schema_id:
            known = lookups.ask(schema_of_id(schema_id), f"the schema {schema_id}", partial(fetched, schema_id))
            if known is not None:
                lookups.schemas.add(known)
        return None if known is None else known.schema_json

    return schema_json


def _object_of_topic(org: OrgConnection, name: str) -> ObjectDescription | None:
    """Return the object that a PushTopic's query is about; None where the org does not tell this user."""
    try:
        topics = org_topics(org.session, name)
        entity = topic_query(topics[0].topic.query).entity if topics else None
    except (TopicsNotReadable, TopicNotSupported):
        return None
    described = org.describe(entity) if entity else None
    return None if described is None else described.object
