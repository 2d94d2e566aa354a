"""One event as a transport delivers it, with its replay id, and where a subscription starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import ClassVar, NamedTuple

LONGEST_REPLAY_ID = 100
"""Bytes of a replay id at most: those of today have ten. Nothing can be resumed after one that fits no request."""
KEPT_AT_MOST_MS = 5 * 24 * 3_600_000
"""No event is kept for longer: of one that says so the time is wrong, and proves nothing."""


class DeliveredEvent(NamedTuple):
    """One event as received; `received_at_ms` is epoch ms UTC, the rest is the service's.

    A tuple, because one is made for every event that is delivered.
    """

    event_id: str
    """The same for each copy of an event that was published twice, and for no other event but those that one event of
    many records is taken apart into. A protocol that has no such id has to derive one."""
    schema_id: str
    """Of the schema the event was written with; empty for an event that has none."""
    payload: bytes
    """As received: Avro or JSON."""
    replay_id: bytes
    """Opaque: stored and sent back, never compared or computed. A text or a number is stored as its text. Empty for an
    event that came without a usable one and has none around it (`with_replay_ids`)."""
    received_at_ms: int

    @property
    def mark(self) -> str:
        """Tells the events of one replay id apart: siblings may share their event id, and differ in their payload."""
        return blake2b(self.event_id.encode() + b"\0" + self.payload, digest_size=16).hexdigest()


def with_replay_ids(events: Sequence[DeliveredEvent], before: bytes) -> Sequence[DeliveredEvent]:
    """Return the events of one response, where those that came without a usable replay id share that of the next event
    that has one, or of the last one before them: who resumes there is sent them again, and knows them. `before`: the id
    of the event before the response, empty where none is known."""
    usable = [0 < len(event.replay_id) <= LONGEST_REPLAY_ID for event in events]
    if all(usable):
        return events
    ids = [event.replay_id if of_its_own else b"" for event, of_its_own in zip(events, usable, strict=True)]
    following, last = b"", next(filter(None, reversed(ids)), before)
    for number in range(len(ids) - 1, -1, -1):
        following = ids[number] = ids[number] or following
    return [event._replace(replay_id=own or last) for event, own in zip(events, ids, strict=True)]


class ReplayPreset(StrEnum):
    """The three kinds of start, as Salesforce calls them."""

    LATEST = "LATEST"
    """With the events that are published from now on."""
    EARLIEST = "EARLIEST"
    """With the oldest event that is retained."""
    CUSTOM = "CUSTOM"
    """With the event after a replay id."""


@dataclass(frozen=True)
class ReplayStart:
    """`ReplayStart.EARLIEST`, `ReplayStart.LATEST`, `ReplayStart.LATEST_ONCE`, or `ReplayStart.after(replay_id)`.

    LATEST promises nothing until a replay id is known: a stream that breaks before that starts at a later tip.
    LATEST_ONCE loses nothing: each further call, before a replay id is known, begins at EARLIEST, and who takes the
    events leaves out those from before the first call.
    """

    preset: ReplayPreset
    replay_id: bytes = b""
    only_once: bool = False

    LATEST: ClassVar[ReplayStart]
    LATEST_ONCE: ClassVar[ReplayStart]
    EARLIEST: ClassVar[ReplayStart]

    @staticmethod
    def after(replay_id: bytes) -> ReplayStart:
        """Strictly after this id. Raises `ValueError` for an empty one, which no service would accept."""
        if not replay_id:
            raise ValueError("an empty replay id is no resume point; use ReplayStart.EARLIEST")
        return ReplayStart(ReplayPreset.CUSTOM, replay_id)


ReplayStart.LATEST = ReplayStart(ReplayPreset.LATEST)
ReplayStart.LATEST_ONCE = ReplayStart(ReplayPreset.LATEST, only_once=True)
ReplayStart.EARLIEST = ReplayStart(ReplayPreset.EARLIEST)
