"""Which objects are polled: those that the settings name, or whose names match a pattern of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sfcdc_assets.salesforce.describe import ObjectSummary

EVERYTHING = "*"
_WILD = frozenset("*?")
_NOT_RECORDS = ("ChangeEvent", "__e", "__b", "__x", "__mdt", "__Tag")
"""How the names of objects end that are events, lie elsewhere, or are a part of the org's setup."""


@dataclass(frozen=True)
class PollSettings:
    """Which objects are polled, by names or patterns with `*` and `?`, in any case, but for those that `exclude` names;
    how often; and how late the org's REST side usually shows a change."""

    objects: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    seconds: float = 900.0
    visibility_seconds: float = 5.0


def polled_objects(settings: PollSettings, objects: Sequence[ObjectSummary]) -> tuple[str, ...]:
    """Return the API names, in order, of those of the org's objects that are polled.

    A name that is none of them is taken as it is, so that it is refused with the org's reason when it is copied. A
    pattern takes what can be queried; `*` alone leaves out companions (shares, feeds, history) and what holds no
    records.
    """
    spelt = {each.name.lower(): each.name for each in objects}
    found = {spelt.get(name.lower(), name) for name in settings.objects if not _is_pattern(name)}
    patterns = [each for each in settings.objects if _is_pattern(each)]
    found |= {each.name for each in objects if each.queryable and any(_takes(pattern, each) for pattern in patterns)}
    return tuple(sorted(name for name in found if not any(_matches(each, name) for each in settings.exclude)))


def _takes(pattern: str, summary: ObjectSummary) -> bool:
    if pattern == EVERYTHING:
        return summary.companion_of is None and not summary.name.endswith(_NOT_RECORDS)
    return _matches(pattern, summary.name)


def _is_pattern(name: str) -> bool:
    return not _WILD.isdisjoint(name)


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())
