"""What a comparison of an entity with the org has found so far."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from sfcdc_assets.org_reads.compare import Difference

DIFFERENCES_KEPT = 100_000
"""Differences held in memory while reading; beyond it the report says that there were more."""


@dataclass
class VerifyReport:
    """What was compared: records in all, and those of them compared again; live records of the org and of the table;
    records that could not be compared (they changed each time, are suspect, or the org does not give them);
    differences, the parts read and the parts that were not for want of budget, and the API requests spent."""

    entity: str
    channel: str
    position: int
    in_org: int = 0
    in_table: int = 0
    compared: int = 0
    compared_again: int = 0
    changed_meanwhile: int = 0
    suspects: int = 0
    unreadable: int = 0
    values_compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    cut_off: bool = False
    """True when there were more differences than are listed."""
    windows: int = 0
    skipped: int = 0
    calls: int = 0
    seconds: float = 0.0
    refused: str | None = None
    """Why nothing was compared."""
    left: frozenset[str] = frozenset()
    """Ids of the records that were not compared."""
    broken_histories: list[str] = field(default_factory=list)
    """Ids of the records whose versions leave a hole or overlap."""

    @property
    def is_equal(self) -> bool:
        """Whether every record of the entity was compared, and none differs."""
        return not (self.differs or self.refused or self.left or self.skipped)

    @property
    def differs(self) -> bool:
        """Whether the tables are not what they should be."""
        return bool(self.differences or self.cut_off or self.broken_histories)

    def to_json(self) -> dict[str, Any]:
        """JSON-able values, without the ids of what is left."""
        description = {name: value for name, value in vars(self).items() if name not in ("left", "differences")}
        return {**description, "equal": self.is_equal, "differences": [asdict(each) for each in self.differences]}

    def leave(self, moving: set[str], suspected: set[str], unreadable: Collection[str] = ()) -> None:
        """Count as left what changed while being compared, is suspect, or could not be read from the org."""
        self.unreadable = len(set(unreadable) - suspected)
        self.changed_meanwhile, self.suspects = len(moving - suspected - set(unreadable)), len(suspected)
        self.left = frozenset({*moving, *suspected, *unreadable})

    def add(self, found: list[Difference]) -> None:
        """Hold differences, up to `DIFFERENCES_KEPT`."""
        self.cut_off = self.cut_off or len(self.differences) + len(found) > DIFFERENCES_KEPT
        self.differences.extend(found[: DIFFERENCES_KEPT - len(self.differences)])
