"""From a message of a channel to an event as landing knows it.

Salesforce promises no order of a message's fields, and an event that is delivered again has to be known by its bytes:
so the payload is kept with its names in order. A number keeps its value, not its spelling.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from sfcdc_assets.cometd.errors import EventWithoutReplayId
from sfcdc_assets.cometd.refusal import Refusal
from sfcdc_assets.streams.delivered_event import DeliveredEvent

_CHANGE_HEADER = "ChangeEventHeader"


def delivered_event(message: Mapping[str, Any], at_ms: int) -> DeliveredEvent:
    """The event of a data message that arrived at `at_ms`. Raises `EventWithoutReplayId`."""
    data = message["data"]
    fields = data if isinstance(data, Mapping) else {}
    about = fields.get("event")
    replay_id = about.get("replayId") if isinstance(about, Mapping) else None
    if isinstance(replay_id, bool) or not isinstance(replay_id, int | str) or replay_id == "":
        raise EventWithoutReplayId(Refusal("message", str(message["channel"]), 0, "its event has no replayId"))
    uuid = about.get("EventUuid") if isinstance(about, Mapping) else None
    body = fields.get("payload")
    if not isinstance(body, Mapping) or "sobject" in fields:
        # A PushTopic's notification, or a text that was pushed: what there is of an event is around it.
        body = data
    payload = _in_order(body)
    is_change = isinstance(body, Mapping) and _CHANGE_HEADER in body
    return DeliveredEvent(
        uuid if isinstance(uuid, str) and uuid else _derived_id(payload if is_change else _in_order([replay_id, body])),
        str(fields.get("schema") or ""),
        payload,
        str(replay_id).encode(),
        at_ms,
    )


def _in_order(payload: object) -> bytes:
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def _derived_id(payload: bytes) -> str:
    """An id for an event whose service gives none. A change event's header has the transaction, the place in it and the
    records, so that no two have the same contents unless one is a copy of the other; what else is sent may be sent
    again in the same words, and its replay id distinguishes it."""
    return str(uuid.UUID(bytes=blake2b(payload, digest_size=16).digest()))
