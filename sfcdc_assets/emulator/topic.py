"""Topics of change events: their names and whose events they carry (facts section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sfcdc_assets.emulator.avro.event_schema import change_event_name

ALL_CHANGE_EVENTS = "/data/ChangeEvents"


@dataclass(frozen=True)
class Topic:
    """A channel one can subscribe to. `entity` is None for the channel of all selected entities."""

    name: str
    entity: str | None


def find_topic(name: str, entities: Iterable[str]) -> Topic | None:
    """The topic of that exact name, if the org has it: names are case-sensitive and start with /data/."""
    if name == ALL_CHANGE_EVENTS:
        return Topic(name, None)
    for entity in entities:
        if name == f"/data/{change_event_name(entity)}":
            return Topic(name, entity)
    return None
