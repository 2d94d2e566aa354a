"""What runs of a job were asked for, and how often in vain: what fails again and again is asked for after pauses that
grow, and what has come of other entities since does not wait so long."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from sfcdc_assets.entities.entity_state import EntityState

Reached = Callable[[EntityState], Hashable]


def copied(state: EntityState) -> Hashable:
    """How far runs of copies have brought an entity."""
    return state.snapshot_complete


def applied(state: EntityState) -> Hashable:
    """How far runs of `sync` have brought an entity, and what they were given to apply but events: one that fails has
    new ones all the time."""
    return state.applied, state.snapshot_complete, state.snapshot_applied, state.read_back_applied


@dataclass
class AskedFor:
    """Of one job; `reached` says how far its runs have brought an entity. Forgotten with the process, which costs a few
    runs more."""

    reached: Reached
    _times: dict[str, tuple[Hashable, int]] = field(default_factory=dict)

    def times(self, work: Sequence[EntityState]) -> int:
        """Return how often in a row all of these entities were asked for and have come no further: at least 1, and 1
        where one of them is new or has come further."""
        return max(1, min((self._times_of(state) for state in work), default=0))

    def note(self, work: Sequence[EntityState]) -> None:
        """Note that a run is asked for, which is to work on these."""
        self._times = {state.entity: (self.reached(state), self._times_of(state) + 1) for state in work}

    def _times_of(self, state: EntityState) -> int:
        reached, times = self._times.get(state.entity, (None, 0))
        return times if reached == self.reached(state) else 0
