"""When each channel was last read, as a note in the warehouse: what is read by one process, another one asks about.

Landed events say when a busy channel was read. A quiet one brings none for days and is read all the same, so whoever
reads says so here, at most once a minute: one small file for each channel, replaced 1,440 times a day.
"""

from __future__ import annotations

from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import folder_of, kind_of

FOLDER = "channels_read"
NOTE_SECONDS = 60.0
"""A reader notes it this seldom: ticks come every five seconds, 17,000 a day."""


def note_read(warehouse: Warehouse, channel: str, at_ms: int) -> None:
    """Note that a reading of the channel has been answered (epoch ms, UTC). Raises what `put_json` raises."""
    put_json(warehouse, _path_of(channel), {"channel": channel, "read_at_ms": at_ms})


def last_read_ms(warehouse: Warehouse, channel: str) -> int | None:
    """Return when that was last noted; None where it never was, or cannot be read. Raises what `read_note` raises."""
    return read_json(warehouse, _path_of(channel), lambda noted: int(noted["read_at_ms"]), otherwise=None)


def _path_of(channel: str) -> str:
    return f"{FOLDER}/{kind_of(channel)}-{folder_of(channel)}.json"


class ReadNote:
    """What one reader of a channel notes about its readings."""

    def __init__(self, warehouse: Warehouse, channel: str) -> None:
        self._warehouse, self._channel = warehouse, channel
        self._noted_at = float("-inf")

    def answered(self) -> None:
        """Note that a reading has ended well, on a stream that has answered. That the warehouse does not take the note
        fails no reading: then the note grows old, which is what it is for."""
        now = clock.current().monotonic()
        if now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        with failing_nothing(f"that {self._channel} was read"):
            note_read(self._warehouse, self._channel, clock.now_ms())
