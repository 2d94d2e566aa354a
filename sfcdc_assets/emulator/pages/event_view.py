"""An event as a row of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.events.feed_sources import FeedEvent

_LONGEST = 60
_FIELDS = 6
_COLOURS = {
    **{change.upper(): change for change in ("create", "update", "delete", "undelete")},
    **{f"{change}d": change for change in ("create", "update", "delete", "undelete")},
    "published": "message",
    "pushed": "message",
}
"""Of change types and what stands for them; all others are gaps."""
_AUDIT = frozenset({"CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById", "SystemModstamp", "OwnerId"})


@dataclass(frozen=True)
class EventView:
    """What the row shows. `committed` is epoch ms, None if nothing in the event says."""

    number: int
    committed: int | None
    change_type: str
    colour: str
    kind: str
    """Change, platform event, PushTopic or generic."""
    entity: str
    record_ids: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    """Some of its fields, without those that every change moves if there are others; texts are cut."""
    more: int
    """Fields that are not shown."""
    whole: str
    """All of it as JSON."""


def event_view(event: FeedEvent) -> EventView:
    """Return the row of an event."""
    values = list(_flat(event.fields))
    shown = [(name, _cut(value)) for name, value in values if name not in _AUDIT] or [
        (name, _cut(value)) for name, value in values
    ]
    return EventView(
        number=event.number,
        committed=event.at or None,
        change_type=event.what,
        colour=_COLOURS.get(event.what, "gap"),
        kind=event.kind,
        entity=event.entity,
        record_ids=event.record_ids,
        values=tuple(shown[:_FIELDS]),
        more=len(values) - min(len(shown), _FIELDS),
        whole=json.dumps(
            {"replayId": event.replay_id, "EventUuid": event.event_id, "schema": event.schema_id, **event.payload}
            if event.schema_id
            else event.payload,
            indent=2,
            ensure_ascii=False,
        ),
    )


def event_views(events: Sequence[FeedEvent]) -> list[EventView]:
    """Rows, the newest first."""
    return [event_view(each) for each in reversed(events)]


def _flat(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict) and "diff" not in value:
            yield from ((f"{name}.{part}", each) for part, each in value.items())
        else:
            yield name, value


def _cut(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a diff"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
