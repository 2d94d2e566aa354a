"""What the messages of PushTopics and generic channels have in common: JSON, with `event` saying when it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def message_of(payload: bytes) -> tuple[Mapping[str, Any], str | None]:
    """The message, empty where it cannot be read, and why it cannot."""
    try:
        found = json.loads(payload)
    except ValueError:
        return {}, "the message is not JSON"
    return (found, None) if isinstance(found, dict) else ({}, "the message is not a JSON object")


def about_event(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """`createdDate`, `replayId` and, of PushTopics, `type`."""
    about = message.get("event")
    return about if isinstance(about, dict) else {}


def created_ms(message: Mapping[str, Any]) -> int | None:
    """When Salesforce made the event (epoch ms, UTC); None where the message does not say."""
    created = about_event(message).get("createdDate")
    try:
        moment = datetime.fromisoformat(str(created))
    except ValueError:
        return None
    return round(moment.timestamp() * 1000) if moment.tzinfo else None
