"""What a Bayeux reply says: why it was not successful, and what the client is to do next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ERROR = re.compile(r"\s*(\d{3}):(?:[^:]*):(.*)", re.DOTALL)
_TEXT_SHOWN = 300


@dataclass(frozen=True)
class Refusal:
    """The facts of one message that was refused, or not answered."""

    message: str
    """Its meta channel, such as `/meta/subscribe`."""
    subject: str = ""
    """The channel of a subscription."""
    code: int = 0
    """As in `403::Unknown client`, or the HTTP status; 0 where nothing was answered."""
    text: str = ""
    replay_id: str = ""
    """Where the subscription was to begin."""


def refusal_of(reply: Mapping[str, Any], message: str, subject: str = "", replay_id: str = "") -> Refusal:
    """Return the reason in a reply. `ext.sfdc.failureReason` says more than `error`, where it is given."""
    ext = reply.get("ext")
    of_salesforce = ext.get("sfdc") if isinstance(ext, Mapping) else None
    reason = of_salesforce.get("failureReason") if isinstance(of_salesforce, Mapping) else None
    code, text = code_and_text(str(reason or reply.get("error") or "no reason is given"))
    return Refusal(message, subject, code, text, replay_id)


def code_and_text(error: str) -> tuple[int, str]:
    """`403::Unknown client` as (403, "Unknown client"); a text without a code has the code 0."""
    match = _ERROR.fullmatch(error)
    code, text = (int(match[1]), match[2]) if match else (0, error)
    return code, " ".join(text.split())[:_TEXT_SHOWN]


CONNECT_SECONDS = 110.0
"""How long a connect is held without an event (Streaming API guide, "Clients and Timeouts")."""
RETRY, HANDSHAKE, NONE = "retry", "handshake", "none"


@dataclass(frozen=True)
class Advice:
    """`reconnect`: go on with a connect, with a handshake, or not at all; `interval`: seconds to wait before;
    `timeout`: for how many seconds a connect is held."""

    reconnect: str = RETRY
    interval: float = 0.0
    timeout: float = CONNECT_SECONDS

    def after(self, reply: Mapping[str, Any]) -> Advice:
        """Return what counts after a reply: a part that it leaves out stays as it was, and so does one that is no such
        thing. The protocol has milliseconds."""
        given = reply.get("advice")
        if not isinstance(given, Mapping):
            return self
        reconnect = given.get("reconnect")
        return Advice(
            reconnect if reconnect in (RETRY, HANDSHAKE, NONE) else self.reconnect,
            _seconds(given.get("interval"), self.interval),
            _seconds(given.get("timeout"), self.timeout),
        )


def _seconds(milliseconds: object, before: float) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or milliseconds < 0:
        return before
    return milliseconds / 1000
