"""Poll mark: how far the polls of an object have come, in the very commit that adds what they read (guarantee 1).

It consists of numbers, kept as Delta's transaction versions where log cleanup cannot reach them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.transaction_versions import bytes_of, numbers_of
from sfcdc_assets.polls.cursor import Cursor


@dataclass(frozen=True)
class PollMark:
    """`polls` have added rows; everything that the org stamped before `read_from_ms` (epoch ms, UTC) was read, which is
    where the next one begins. `under_way`: where one has stopped that was not finished, and the time by the org's clock
    (epoch ms, UTC; 0: not known) at which it was `begun_ms`."""

    polls: int = 0
    read_from_ms: int = 0
    begun_ms: int = 0
    under_way: Cursor | None = None

    @classmethod
    def of(cls, table: Table) -> PollMark:
        """Return what a handle on `snapshot/<Entity>` has."""

        def number(name: str) -> int:
            return table.transaction_version(name) or 0

        record_id = bytes_of("poll_id", number).decode()
        cursor = Cursor.of_ms(number("poll_stamp"), record_id) if record_id else None
        return cls(number("poll"), number("poll_read_from"), number("poll_begun"), cursor)

    def versions(self) -> dict[str, int]:
        """Return the mark as transaction versions."""
        cursor = self.under_way
        return {
            "poll": self.polls,
            "poll_read_from": self.read_from_ms,
            "poll_begun": self.begun_ms,
            "poll_stamp": cursor.stamp_ms if cursor else 0,
            **numbers_of("poll_id", cursor.record_id.encode() if cursor else b""),
        }

    def stopped_at(self, cursor: Cursor, begun_ms: int) -> PollMark:
        """Return the mark after a page that others follow."""
        return replace(self, polls=self.polls + 1, under_way=cursor, begun_ms=begun_ms)

    def finished(self, read_from_ms: int) -> PollMark:
        """Return the mark after the last page of a poll."""
        return PollMark(self.polls + 1, max(read_from_ms, self.read_from_ms))
