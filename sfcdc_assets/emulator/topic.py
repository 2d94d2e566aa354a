"""Topics of change events: their names and whose events they carry (docs/salesforce-streams.md, "Topics and
schemas")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sfcdc_assets.emulator.avro.event_schema import change_event_name
from sfcdc_assets.emulator.event_store import EVERYWHERE, OWN_TOPIC

ALL_CHANGE_EVENTS = "/data/ChangeEvents"


@dataclass(frozen=True)
class Topic:
    """A channel one can subscribe to. `entity` is None for channels of several objects."""

    name: str
    entity: str | None
    channels: tuple[str, ...] = (EVERYWHERE,)
    """Where the events are that it carries."""


def find_topic(name: str, entities: Iterable[str], custom_channels: Iterable[str] = ()) -> Topic | None:
    """The topic of that exact name, if the org has it: names are case-sensitive and start with /data/."""
    if name == ALL_CHANGE_EVENTS:
        return Topic(name, None)
    for entity in entities:
        if name == f"/data/{change_event_name(entity)}":
            return Topic(name, entity, (EVERYWHERE, OWN_TOPIC))
    for channel in custom_channels:
        if name == f"/data/{channel}":
            return Topic(name, None, (channel,))
    return None
