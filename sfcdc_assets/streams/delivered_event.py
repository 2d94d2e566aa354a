"""One event as a transport delivers it."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple


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
    """Opaque: stored and sent back, never compared or computed. A text or a number is stored as its text."""
    received_at_ms: int

    @property
    def mark(self) -> str:
        """Tells the events of one replay id apart: siblings may share their event id, and differ in their payload."""
        return blake2b(self.event_id.encode() + b"\0" + self.payload, digest_size=16).hexdigest()
