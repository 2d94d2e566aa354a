"""What a Bayeux reply that was not successful says (docs/salesforce-streams.md, "Errors of the Streaming API")."""

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
    """The reason in a reply. `ext.sfdc.failureReason` says more than `error`, where it is given."""
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
