"""Which objects are polled: those that the settings name, or whose names match a pattern of theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING

from sfcdc_assets.polls.cursor import REREAD
from sfcdc_assets.polls.known_objects import known_object
from sfcdc_assets.polls.object_files import AS_ALL, ObjectPolling
from sfcdc_assets.polls.readability import refusal_by_name

if TYPE_CHECKING:  # `sfcdc status`, which names what is left out, needs no client of REST
    from sfcdc_assets.salesforce.describe import ObjectSummary

EVERYTHING = "*"
_WILD = frozenset("*?")
_OF_ANOTHER = ("__Tag", "__hd")
"""How the names of objects end that go with another one, where describe does not say so."""
_NOT_RECORDS = ("ChangeEvent", "__e")
NOT_QUERYABLE = "the org does not let it be queried"


@dataclass(frozen=True)
class PollSettings:
    """Which objects are polled, by names or patterns with `*` and `?`, in any case, but for those that `exclude` names;
    how often; and how late the org's REST side usually shows a change. `reread_seconds`: how often what changes without
    a stamp is compared as a whole; `count_seconds`: how often records are counted, to find what was deleted for good.
    """

    objects: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    seconds: float = 900.0
    visibility_seconds: float = 5.0
    reread_seconds: float = 86_400.0
    count_seconds: float = 86_400.0
    own: Mapping[str, ObjectPolling] = field(default_factory=dict)
    """By object, in lower case: what is otherwise for it."""
    percent: float = 25.0
    """Of the org's daily API requests that polls may take; `reserve_percent` of them are left to others."""
    reserve_percent: float = 0.0
    only: Collection[str] = ()
    """Of all that is copied, these entities alone are wanted now; empty: all."""
    overlap_minutes: float = REREAD.total_seconds() / 60
    """How far before its last poll each poll of an object begins."""

    def asks(self, entity: str) -> bool:
        """Return whether an object that is polled is asked now. One that is not wanted now takes no requests; what has
        changed meanwhile is read when it is."""
        return not self.only or entity in self.only

    def of(self, entity: str) -> ObjectPolling:
        """Return what is otherwise for an object."""
        return self.own.get(entity.lower(), AS_ALL)

    def seconds_of(self, entity: str) -> float:
        """Return how often an object is asked for what changed."""
        return self.of(entity).seconds or self.seconds

    def reread_seconds_of(self, entity: str) -> float:
        """Return how often what changes without a stamp of an object is compared."""
        hours = self.of(entity).compare_hours
        return self.reread_seconds if hours is None else hours * 3600

    def count_seconds_of(self, entity: str) -> float:
        """Return how often an object's records are counted."""
        hours = self.of(entity).count_hours
        return self.count_seconds if hours is None else hours * 3600

    def overlap_of(self, entity: str) -> timedelta:
        """Return how far before its last poll each poll of an object begins."""
        return timedelta(minutes=self.of(entity).reread_minutes or self.overlap_minutes)

    def names(self, entity: str) -> bool:
        """Return whether the settings name an object, and not only a pattern that it matches."""
        return any(each.lower() == entity.lower() for each in self.objects)


def is_named(entity: str, patterns: Sequence[str]) -> bool:
    """Return whether one of these names or patterns, in any case, matches an object."""
    return any(_matches(each, entity) for each in patterns)


_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PollSelection:
    """The API names, in order, of the objects that are polled, and why others are not that a pattern matches."""

    polled: tuple[str, ...]
    left_out: Mapping[str, str]


def polled_objects(
    settings: PollSettings, objects: Sequence[ObjectSummary], refused: Mapping[str, str] = _NONE
) -> PollSelection:
    """Return which of the org's objects are polled. `refused`: those that could not be copied, and why.

    A name is taken as it is, also of an object that the org does not have or that cannot be read, so that it is refused
    with the reason when it is copied. A pattern takes what can be read as a table; `*` alone leaves out companions
    (shares, feeds, history) and what is not worth it.
    """
    spelt = {each.name.lower(): each.name for each in objects}
    polled = {spelt.get(name.lower(), name) for name in settings.objects if not _is_pattern(name)}
    patterns = [each for each in settings.objects if _is_pattern(each)]
    left_out: dict[str, str] = {}
    for each in objects:
        matching = [pattern for pattern in patterns if _matches(pattern, each.name) and _is_meant(pattern, each)]
        if not matching or each.name in polled or each.name.endswith(_NOT_RECORDS):
            continue
        why = _why_not(each, refused, only_everything=set(matching) == {EVERYTHING})
        if why is None:
            polled.add(each.name)
        else:
            left_out[each.name] = why
    excluded = {name for name in polled if is_named(name, settings.exclude)}
    out = {name: why for name, why in left_out.items() if not is_named(name, settings.exclude)}
    return PollSelection(tuple(sorted(polled - excluded)), dict(sorted(out.items())))


def reasons(left_out: Mapping[str, str]) -> str:
    """Return objects that patterns match and that are not polled, with the reasons, as a sentence."""
    by_reason: dict[str, list[str]] = {}
    for entity, why in left_out.items():
        by_reason.setdefault(why.rstrip("."), []).append(entity)
    return "; ".join(f"{', '.join(entities)} ({why})" for why, entities in by_reason.items()) + "."


def _why_not(summary: ObjectSummary, refused: Mapping[str, str], *, only_everything: bool) -> str | None:
    """Return why a pattern does not take an object that it matches."""
    refusal = refusal_by_name(summary.name)
    if refusal is not None:
        return refusal.reason
    if not summary.queryable:
        return NOT_QUERYABLE
    if only_everything and (why := known_object(summary.name).not_worth_it):
        return why
    return refused.get(summary.name)


def _is_meant(pattern: str, summary: ObjectSummary) -> bool:
    """Return whether a pattern that matches stands for an object: companions need one of their own."""
    return pattern != EVERYTHING or not _is_companion(summary)


def _is_companion(summary: ObjectSummary) -> bool:
    return summary.companion_of is not None or summary.name.endswith(_OF_ANOTHER)


def _is_pattern(name: str) -> bool:
    return not _WILD.isdisjoint(name)


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())
