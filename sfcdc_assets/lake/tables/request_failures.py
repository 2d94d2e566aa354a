"""How often requests to the org failed in a row: one number, kept as a table's transaction version, so that every
process knows it and pauses."""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.runtime.doubling import doubled

FORGIVEN_MS = 24 * 3_600_000
_MOST_TRIES = 32


@dataclass(frozen=True)
class FailuresInARow:
    """How often something was asked for without success, and when for the last time (epoch ms, UTC)."""

    tries: int = 0
    at_ms: int = 0

    @classmethod
    def of(cls, number: int) -> FailuresInARow:
        """Read the form in which it is kept: one number."""
        return cls(number % _MOST_TRIES, number // _MOST_TRIES)

    @property
    def number(self) -> int:
        """As it is kept."""
        return self.at_ms * _MOST_TRIES + self.tries

    def until_ms(self, first_ms: int, longest_ms: int) -> int:
        """Return the time before which not to ask: the pauses double from the first to the longest."""
        return self.at_ms + int(doubled(first_ms, longest_ms, self.tries)) if self.tries else 0

    def again(self, now_ms: int) -> FailuresInARow:
        """Once more; what was long ago does not count."""
        tries = self.tries + 1 if now_ms - self.at_ms < FORGIVEN_MS else 1
        return FailuresInARow(min(tries, _MOST_TRIES - 1), now_ms)
