"""What the messages of PushTopics and generic channels have in common: JSON, with `event` saying when and in which
order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sfcdc_assets.change_events.cell_value import is_in_calendar
from sfcdc_assets.runtime.times import epoch_ms


def message_of(payload: bytes) -> tuple[Mapping[str, Any], str | None]:
    """Return the message, empty where it cannot be read, and why it cannot."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}, "the message is not JSON"
    return (found, None) if isinstance(found, dict) else ({}, "the message is not a JSON object")


def about_event(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """`createdDate`, `replayId` and, of PushTopics, `type`."""
    about = message.get("event")
    return about if isinstance(about, dict) else {}


def created_ms(message: Mapping[str, Any]) -> int | None:
    """Return when Salesforce made the event (epoch ms, UTC); None where the message names no time of the years 1 to
    9999."""
    created = about_event(message).get("createdDate")
    try:
        moment = datetime.fromisoformat(str(created))
    except ValueError:
        return None
    made = epoch_ms(moment) if moment.tzinfo else None
    return made if made is not None and is_in_calendar(made) else None


def parts_in(value: Mapping[str, Any] | None, parts: Iterable[str]) -> dict[str, Any]:
    """Return the values of these fields of the object in a compound value; null for one that it does not have."""
    members = value or {}
    return {part: next((members[name] for name in members if _is(name, part)), None) for part in parts}


def _is(member: str, part: str) -> bool:
    return member == part or part.lower().removesuffix("__s").endswith(member.lower())
