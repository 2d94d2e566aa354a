"""The values of a benchmark: samples, what they must reach, figures, and the stage that measures them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


class WrongAnswer(AssertionError):
    """A contestant's result is not the expected one: its speed is worth nothing. The message names what differs."""


_RATES = ("/s", "/CPU s", "a CPU second")


@dataclass(frozen=True)
class Goal:
    """What `ours` must reach: a bound on its median, or on its ratio to the peer (or other case) named `of`."""

    bound: float
    of: str | None = None
    at_least: bool = False
    """Whether more is better; otherwise the bound must not be exceeded."""
    must: bool = False
    """Whether a run that misses it fails: a count, a time by a simulated clock, or a ratio to what is measured beside
    it, with room for any machine."""

    def is_reached(self, value: float) -> bool:
        """Whether `value`, a median or a ratio as `of` says, is within the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def text(self, unit: str) -> str:
        """The goal as a short phrase: "≥ 6 × fastavro", "≤ 4 s"."""
        side = "≥" if self.at_least else "≤"
        return f"{side} {self.bound:g} × {self.of}" if self.of else f"{side} {self.bound:g} {unit}"


@dataclass(frozen=True)
class Figure:
    """One measure of one case: our samples, those of each peer, in `unit`, and the goal if there is one.

    Samples of one round stand at the same index, so that a ratio compares what ran side by side.
    """

    case: str
    unit: str
    ours: Sequence[float]
    peers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    goal: Goal | None = None

    @property
    def more_is_better(self) -> bool:
        """Whether it is a rate, and not a cost."""
        return self.goal.at_least if self.goal is not None else any(each in self.unit for each in _RATES)

    @property
    def fails(self) -> bool:
        """Whether it misses a goal that every run must reach."""
        goal, value = self.goal, self.value
        return goal is not None and value is not None and goal.must and not goal.is_reached(value)

    @property
    def value(self) -> float | None:
        """What the goal is about: the median ratio to its peer, or our median; None without a goal."""
        if self.goal is None:
            return None
        if self.goal.of is None:
            return median(self.ours)
        return ratio(self.ours, self.peers[self.goal.of])


@dataclass(frozen=True)
class Stage:
    """A stage of the pipeline: how it is measured, how its results are compared, and what limits it now."""

    title: str
    measure: Callable[[bool], Sequence[Figure]]
    """Given whether to be quick: measures, compares, returns figures. Raises `WrongAnswer`."""
    compared: str
    """One sentence: which results were compared with what."""
    limit: str
    """One sentence: what limits the stage now."""


def ratio(ours: Sequence[float], peers: Sequence[float]) -> float:
    """The median of the rounds' ratios; of the medians, where not every round has both."""
    if len(ours) != len(peers):
        return median(ours) / median(peers)
    return median(one / other for one, other in zip(ours, peers, strict=True))
