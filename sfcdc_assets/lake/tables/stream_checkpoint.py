"""Stream checkpoint: what `raw_events` remembers of a channel, in the very commit that lands its events (guarantee 1).

It consists of numbers, which are kept as Delta's transaction versions: log cleanup does not remove them, and
checkpoints of the log carry them on for ever. A replay id is bytes, and is kept as numbers of seven bytes each, and so
is a transaction's key. Which events of the last replay id were taken is shown by their rows, from `open_from` on.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.transaction_versions import bytes_of, numbers_of
from sfcdc_assets.streams.checkpoint import COMETD, EARLIEST, LATEST, PUBSUB, StreamCheckpoint

STARTS = (None, EARLIEST, LATEST)
"""`begun` is kept as the index of one of these."""
_TRANSPORTS = (PUBSUB, COMETD)
"""`transport` is kept as the index of one of these."""


@dataclass(frozen=True)
class StoredCheckpoint:
    """Of one channel; 0 where there is nothing yet. Times are epoch ms, UTC, by our clock."""

    position: int = 0
    """The last that was given out."""
    complete_position: int = 0
    """That of the last complete transaction."""
    landed_at: int = 0
    """When events were last landed, or the resume point moved."""
    begun: str | None = None
    """Where the stream was begun: EARLIEST or LATEST."""
    begun_at: int = 0
    replay_id: bytes = b""
    """Everything up to it was taken; empty while no id is known to be complete."""
    known_at: int = 0
    """When it was taken, or given."""
    open_from: int = 0
    """Position of the first event of the last replay id, of which more may come; 0 when that is known to be whole."""
    transaction_key: str = ""
    """Of the last landed event; empty after a break of the order."""
    transport: str = PUBSUB
    """The protocol that the replay id is of."""
    repeats: int = 0
    """Deliveries spent on events that had come before."""

    @classmethod
    def of(cls, table: Table, channel: str) -> StoredCheckpoint:
        """Return what a handle on `raw_events` has."""

        def number(name: str) -> int:
            return table.transaction_version(f"{channel}#{name}") or 0

        return cls(
            position=table.transaction_version(channel) or 0,
            complete_position=number("complete"),
            landed_at=number("landed_at"),
            begun=STARTS[number("begun")],
            begun_at=number("begun_at"),
            replay_id=bytes_of("replay_id", number),
            known_at=number("known_at"),
            open_from=number("open_from"),
            transaction_key=bytes_of("transaction_key", number).decode(),
            transport=_TRANSPORTS[number("transport")],
            repeats=number("repeats"),
        )

    @classmethod
    def after(cls, checkpoint: StreamCheckpoint, now_ms: int) -> StoredCheckpoint:
        """Return what is stored of a stream's checkpoint that is reached now."""
        return cls(
            position=checkpoint.position,
            complete_position=checkpoint.complete_position,
            landed_at=now_ms,
            begun=checkpoint.begun,
            begun_at=checkpoint.begun_at_ms or 0,
            replay_id=checkpoint.resume.replay_id or b"",
            known_at=checkpoint.resume.known_at_ms or 0,
            open_from=checkpoint.open_from if checkpoint.resume.open_id else 0,
            transaction_key=checkpoint.transaction_key or "",
            transport=checkpoint.transport,
            repeats=checkpoint.repeats,
        )

    def versions(self, channel: str) -> dict[str, int]:
        """Return the checkpoint as transaction versions."""
        numbers = {
            "complete": self.complete_position,
            "landed_at": self.landed_at,
            "begun": STARTS.index(self.begun),
            "begun_at": self.begun_at,
            "known_at": self.known_at,
            "open_from": self.open_from,
            "transport": _TRANSPORTS.index(self.transport),
            **({"repeats": self.repeats} if self.repeats else {}),
            **numbers_of("replay_id", self.replay_id),
            **numbers_of("transaction_key", self.transaction_key.encode()),
        }
        return {channel: self.position} | {f"{channel}#{name}": number for name, number in numbers.items()}

    @property
    def is_known(self) -> bool:
        """Whether all events from here on will come: nothing can have its watermark to a start at LATEST that has not
        shown where it was."""
        return bool(self.replay_id) or self.begun == EARLIEST


def complete_position(table: Table, channel: str) -> int:
    """Return the complete position alone, which every tick asks for."""
    return table.transaction_version(f"{channel}#complete") or 0


def begun(table: Table, channel: str) -> str | None:
    """Return where the stream was begun, alone: with the position it says whether the channel is where a reader left
    it."""
    return STARTS[table.transaction_version(f"{channel}#begun") or 0]
