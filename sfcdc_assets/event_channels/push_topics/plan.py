"""What brings the topics of an org to what the files say: create, change, deactivate. Nothing is ever deleted, and
topics that no file defines are left as they are: other teams may listen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sfcdc_assets.event_channels.push_topics.definition import API_NAMES, PushTopic


class Action(StrEnum):
    """What is done with a topic."""

    CREATE = "create"
    CHANGE = "change"
    DEACTIVATE = "deactivate"
    """No notification is raised any more; the record stays, and may be activated again."""


@dataclass(frozen=True)
class OrgTopic:
    """A topic as the org has it."""

    id: str
    topic: PushTopic


@dataclass(frozen=True)
class Change:
    """A field of a topic that is to have another value."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.before)} -> {_shown(self.after)}"


@dataclass(frozen=True)
class Step:
    """One topic that is created or changed; `id` is that of the org's record, None for one that is created."""

    action: Action
    topic: PushTopic
    id: str | None = None
    changes: tuple[Change, ...] = ()

    def values(self) -> dict[str, Any]:
        """Return what REST is sent."""
        if self.action is Action.CREATE:
            return self.topic.values()
        return {change.field: change.after for change in self.changes}


@dataclass(frozen=True)
class Plan:
    """The steps in the order in which they are made, and what needs none."""

    steps: tuple[Step, ...] = ()
    unchanged: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()
    """Topics of the org that no file defines."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return asdict(self)


_ORDER = {Action.DEACTIVATE: 0, Action.CHANGE: 1, Action.CREATE: 2}
"""Active topics are limited in number: first make room."""


def plan(ours: Sequence[PushTopic], theirs: Sequence[OrgTopic]) -> Plan:
    """Topics are the same if their names differ in case at most, as the org takes no two of those."""
    by_name = {each.topic.name.lower(): each for each in theirs}
    steps, unchanged = [], []
    for topic in sorted(ours, key=lambda each: each.name.lower()):
        present = by_name.pop(topic.name.lower(), None)
        step = _step(topic, present)
        if step is None:
            unchanged.append(topic.name)
        else:
            steps.append(step)
    steps.sort(key=lambda step: _ORDER[step.action])
    return Plan(tuple(steps), tuple(unchanged), tuple(each.topic.name for each in by_name.values()))


def differences(ours: PushTopic, theirs: PushTopic) -> tuple[Change, ...]:
    """Return the fields in which the org's topic is not what its file says."""
    wanted, present = ours.values(), theirs.values()
    return tuple(Change(name, present[name], wanted[name]) for name in API_NAMES if present[name] != wanted[name])


def _step(topic: PushTopic, present: OrgTopic | None) -> Step | None:
    if present is None:
        return Step(Action.CREATE, topic)
    changes = differences(topic, present.topic)
    if not changes:
        return None
    deactivates: Mapping[str, Any] = {change.field: change.after for change in changes}
    action = Action.DEACTIVATE if deactivates.get("IsActive") is False else Action.CHANGE
    return Step(action, topic, present.id, changes)


def _shown(value: Any) -> str:
    return {None: "nothing", True: "true", False: "false"}.get(value) or str(value)
