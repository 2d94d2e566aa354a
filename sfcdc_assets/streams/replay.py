"""Where a subscription starts. Replay ids are opaque: they are stored and sent back, never compared or computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


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
    """`ReplayStart.EARLIEST`, `ReplayStart.LATEST`, or `ReplayStart.after(replay_id)`.

    LATEST promises nothing until the first response: a stream that breaks before it starts at a later tip.
    """

    preset: ReplayPreset
    replay_id: bytes = b""

    LATEST: ClassVar[ReplayStart]
    EARLIEST: ClassVar[ReplayStart]

    @staticmethod
    def after(replay_id: bytes) -> ReplayStart:
        """Strictly after this id. Raises `ValueError` for an empty one, which no service would accept."""
        if not replay_id:
            raise ValueError("an empty replay id is no resume point; use ReplayStart.EARLIEST")
        return ReplayStart(ReplayPreset.CUSTOM, replay_id)


ReplayStart.LATEST = ReplayStart(ReplayPreset.LATEST)
ReplayStart.EARLIEST = ReplayStart(ReplayPreset.EARLIEST)
