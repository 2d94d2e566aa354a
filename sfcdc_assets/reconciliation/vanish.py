"""How many records may be gone at once before a read of the org is no longer believed.

Deletes raise events, so a read seldom has to report them: many that no event reported are more likely a permission that
was withdrawn, a wrong org, or a failing index on the other side. A person decides then.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VanishLimits:
    """Both must be exceeded: a share of the living rows, and a number, for small tables."""

    percent: float = 10.0
    rows: int = 20

    def exceeded(self, vanished: float, living: int) -> bool:
        """Whether so many of the living rows may not vanish by one read."""
        return vanished > self.rows and vanished * 100 > self.percent * living
