"""Topics: their names and whose events they carry (docs/salesforce-streams.md, "Topics and schemas")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.events.avro.event_schema import change_event_name
from sfcdc_assets.emulator.events.event_bus import RETENTION_MS
from sfcdc_assets.emulator.events.event_store import EVERYWHERE, OWN_TOPIC

if TYPE_CHECKING:
    from sfcdc_assets.emulator.org.org import EmulatedOrg

ALL_CHANGE_EVENTS = "/data/ChangeEvents"


@dataclass(frozen=True)
class Topic:
    """A channel one can subscribe to. `entity` is None for channels of several objects or platform events."""

    name: str
    entity: str | None
    channels: tuple[str, ...] = (EVERYWHERE,)
    """Where the events are that it carries."""
    retention_ms: int = RETENTION_MS
    can_publish: bool = False
    is_high_volume: bool = True
    """The Pub/Sub API does not serve others."""


def find_topic(org: EmulatedOrg, name: str) -> Topic | None:
    """Return the topic of that exact name, if the org has it and the client may see it: names are case-sensitive."""
    if name == ALL_CHANGE_EVENTS:
        return Topic(name, None)
    for entity, definition in org.definitions.items():
        is_named = definition.has_change_events and name == f"/data/{change_event_name(entity)}"
        if is_named and entity not in org.hidden_objects:
            return Topic(name, entity, (EVERYWHERE, OWN_TOPIC))
    for channel in org.channels.all():
        if name == channel.topic:
            return Topic(name, None, (channel.name,))
    for event in org.platform_events.all.values():
        if name == f"/event/{event.name}" and event.name not in org.hidden_objects:
            return Topic(
                name,
                event.name,
                (OWN_TOPIC,),
                retention_ms=event.retention_ms,
                can_publish=True,
                is_high_volume=event.is_high_volume,
            )
    return None


def readable(org: EmulatedOrg, topic: Topic) -> frozenset[str]:
    """Return what of a topic the client may read now: permissions that change take effect on open streams too."""
    everything = frozenset(org.definitions) | org.platform_events.all.keys()
    entities = everything - org.hidden_objects - org.unreadable_objects
    return entities if topic.entity is None else entities & {topic.entity}
