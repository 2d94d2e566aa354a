"""Malformed requests to the Streaming API."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from sfcdc_assets_tests.emulator.malformed.values import changed, json_bytes, value

PATHS = (
    "/cometd/59.0", "/cometd/59.0", "/cometd/59.0/connect", "/cometd/replay/36.0", "/cometd/36.0", "/cometd",
    "/cometd/", "/cometd/x", "/cometd/59.0/%00", "/cometd/replay/", "/cometd/999999999999.0", "/cometd/59.0/a/b",
)  # fmt: skip
WORDS = (
    "/meta/handshake", "/meta/connect", "/meta/subscribe", "/meta/unsubscribe", "/meta/disconnect", "/service/x",
    "/data/ChangeEvents", "/data/AccountChangeEvent", "/data/", "/data/Nope", "/event/Nope__e", "/topic/P", "/topic/p",
    "/topic/P?Name=x&", "/topic/P?Name='", "/u/x", "/u/X", "/u/", "/u/a/b", "/**", "/", "x", "", "long-polling",
    "websocket", "replay", "ext", "channel", "clientId", "subscription", "id", "advice", "\ud800", "é", "a" * 300,
)  # fmt: skip
CHANNELS = WORDS[:5]


@dataclass(frozen=True)
class BayeuxRequest:
    """`knows_cookie`: whether the session's cookie is sent; `token`: what the header of the token has instead."""

    method: str
    path: str
    content: bytes
    knows_cookie: bool
    token: str | None


def bayeux_request(dice: random.Random, client_id: str) -> BayeuxRequest:
    """One request of a client that has shaken hands."""
    messages: Any = [_message(dice, client_id) for _ in range(dice.choice((1, 1, 1, 2, 5)))]
    if dice.random() < 0.1:
        messages = dice.choice((messages[0], value(dice, WORDS), [value(dice, WORDS)]))
    token = dice.choice(("", "Bearer", "Bearer x", "Basic eDp4", "OAuth \xe9")) if dice.random() < 0.08 else None
    method = dice.choice(("GET", "PUT", "DELETE")) if dice.random() < 0.03 else "POST"
    content = json_bytes(dice, messages)
    return BayeuxRequest(
        method, dice.choice(PATHS[:4] if dice.random() < 0.8 else PATHS), content, dice.random() < 0.9, token
    )


def _message(dice: random.Random, client_id: str) -> Any:
    channel = dice.choice(CHANNELS)
    good: dict[str, Any] = {"channel": channel, "id": "1", "clientId": client_id}
    if channel == "/meta/handshake":
        good |= {"version": "1.0", "supportedConnectionTypes": ["long-polling"]}
    elif channel == "/meta/connect":
        good |= {"connectionType": "long-polling", "advice": {"timeout": 0}}
    elif channel in {"/meta/subscribe", "/meta/unsubscribe"}:
        subscription = dice.choice(WORDS)
        place = dice.choice((-1, -2, 0, 7, 2**63, "x", None, [], 1.5, float("nan")))
        good |= {"subscription": subscription, "ext": {"replay": {subscription: place}}}
    return good if dice.random() < 0.3 else changed(dice, WORDS, good)
