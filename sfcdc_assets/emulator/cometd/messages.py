"""Requests and answers of the Streaming API, apart from HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.emulator.cometd.refusals import BayeuxRefusal

HANDSHAKE, CONNECT, DISCONNECT = "/meta/handshake", "/meta/connect", "/meta/disconnect"
SUBSCRIBE, UNSUBSCRIBE = "/meta/subscribe", "/meta/unsubscribe"

Message = Mapping[str, Any]


@dataclass
class CometdCall:
    """One request. `replays`: whether the address is one that replays events; `is_gone`: the client has hung up."""

    messages: Sequence[Message]
    has_token: bool
    user_id: str | None
    cookie: str | None
    replays: bool = True
    refusal: BayeuxRefusal | None = None
    """For all messages: the address names no version, or one that is not served."""
    is_gone: threading.Event = field(default_factory=threading.Event)
    is_still_authorized: Callable[[], bool] = lambda: True
    """Whether the token is still the user's; a connect that is held asks again before it brings anything."""


@dataclass
class CometdAnswer:
    """Its answer. `cookie` is to be set; `is_cut` ends it in the middle, `is_reset` before it began; `pause` is that of
    a slow network in its middle, in seconds."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    cookie: str | None = None
    is_cut: bool = False
    is_reset: bool = False
    pause: float | None = None


def reply_to(message: Message, **values: Any) -> dict[str, Any]:
    """Return a reply with the message's channel and id."""
    reply = {"channel": message.get("channel"), "successful": True, **values}
    return reply | {"id": message["id"]} if "id" in message else reply
