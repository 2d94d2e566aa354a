"""Generic channels by REST: find one by its name, push a text to it (Streaming API guide, "Streaming Channel Push")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.session import OrgSession

LONGEST_PAYLOAD = 3_000
BROADCAST = -1


class ChannelUnknown(SfcdcError):
    """The org has no generic channel of this name. Nothing was sent, and none was created."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        by_case = next((each for each in known if each.lower() == name.lower()), None)
        have = f"It has {', '.join(known)}." if known else "It has none that this user may see."
        said = "404::channel names may not vary only by case" if by_case else "404::Unknown channel"
        remedy = (
            f"Write {by_case}"
            if by_case
            else "Correct the name (case counts), or create it: Setup, User Interface, a tab for Streaming Channels"
        )
        super().__init__(f"The org has no generic channel {name} ({said}); nothing was sent. {have} {remedy}.")


class PushRefused(RequestRefused):
    """The org did not take what was pushed; nobody was sent anything."""

    def __init__(self, name: str, length: int, refusal: RequestRefused) -> None:
        self.name, self.length = name, length
        super().__init__(f"the push to {name}", refusal.status, refusal.error_code, refusal.message)

    def _text(self) -> str:
        remedy = "Give the user Create on Streaming Channels."
        if self.length > LONGEST_PAYLOAD:
            remedy = f"The text has {self.length:,} characters: send {LONGEST_PAYLOAD:,} at most, or several texts."
        return f"{super()._text()} Nothing was sent. {remedy}"


@dataclass(frozen=True)
class Pushed:
    """What became of a push. `fanout`: to how many subscribed users it was sent; -1 for a broadcast that somebody
    listened to. `online`: of the users that were named, who is subscribed now."""

    fanout: int
    online: Mapping[str, bool]


def push(session: OrgSession, name: str, text: str, users: Sequence[str] = ()) -> Pushed:
    """Push a text to all subscribers of a channel, or to these users. Raises `ChannelUnknown`, `PushRefused`.

    It is sent once: an answer that did not arrive may belong to a push that did.
    """
    path = f"sobjects/StreamingChannel/{_id_of(session, name)}/push"
    body = {"pushEvents": [{"payload": text, "userIds": list(users)}]}
    try:
        answer = session.request("POST", path, json=body, what=f"the push to {name}")
    except RequestRefused as refusal:
        raise PushRefused(name, len(text), refusal) from refusal
    result = answer[0] if isinstance(answer, list) and len(answer) == 1 else None
    if not isinstance(result, dict) or not isinstance(result.get("fanoutCount"), int):
        raise UnexpectedAnswer(session.url_of(path), "it does not say what became of the push")
    online = result.get("userOnlineStatus")
    return Pushed(result["fanoutCount"], {user: bool(is_on) for user, is_on in _mapping(online).items()})


def listeners(session: OrgSession, name: str) -> tuple[str, ...]:
    """Ids of the users who are subscribed to a channel now. Raises `ChannelUnknown`."""
    path = f"sobjects/StreamingChannel/{_id_of(session, name)}/push"
    answer = session.request("GET", path, what=f"who listens to {name}")
    return tuple(str(each) for each in _mapping(answer).get("OnlineUserIds") or ())


def _id_of(session: OrgSession, name: str) -> str:
    rows = list(query_rows(session, "SELECT Id, Name FROM StreamingChannel ORDER BY Name"))
    found = next((str(row["Id"]) for row in rows if row["Name"] == name), None)
    if found is None:
        raise ChannelUnknown(name, [str(row["Name"]) for row in rows])
    return found


def _mapping(answer: object) -> Mapping[str, Any]:
    return answer if isinstance(answer, dict) else {}
