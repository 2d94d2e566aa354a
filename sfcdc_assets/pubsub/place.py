"""Where a broken subscription resumes, and which events it then brings a second time.

Several events may share one replay id (enriched events of one multi-record change, facts section 7), and the service
resumes strictly after an id. So the id of the last event is no place to resume from until a later id, or the tip of the
stream, shows that its group is whole; until then the group comes again and what is known of it is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from sfcdc_assets.pubsub.replay import ReplayStart


@dataclass(frozen=True, slots=True)
class DeliveredEvent:
    """One event as received; `received_at_ms` is epoch ms UTC, the rest is the service's."""

    event_id: str
    schema_id: str
    payload: bytes
    replay_id: bytes
    received_at_ms: int


class Place:
    """The place of one reader in one stream, and the events of the group that is still open."""

    def __init__(self, start: ReplayStart) -> None:
        self._complete = start
        self._open: bytes | None = None
        self._seen: set[tuple[str, bytes]] = set()

    @property
    def resume(self) -> ReplayStart:
        """Where to start again so that nothing is missed."""
        if self._complete == ReplayStart.LATEST and self._open is not None:
            # Nothing before the first event has an id. Starting at LATEST again would lose all since then; starting
            # after the open group can lose its siblings only.
            return ReplayStart.after(self._open)
        return self._complete

    def admit(self, event: DeliveredEvent) -> bool:
        """Take note of an event; False when it was admitted before (same replay id, event id and payload)."""
        if event.replay_id != self._open:
            self._close_group()
            self._open = event.replay_id
        mark = (event.event_id, sha256(event.payload).digest())
        if mark in self._seen:
            return False
        self._seen.add(mark)
        return True

    def reach_tip(self, latest_replay_id: bytes = b"") -> None:
        """The stream has nothing more: the open group is whole, and an empty response's id is a place as well."""
        self._close_group()
        if latest_replay_id:
            self._complete = ReplayStart.after(latest_replay_id)

    def _close_group(self) -> None:
        if self._open is not None:
            self._complete = ReplayStart.after(self._open)
        self._open = None
        self._seen.clear()
