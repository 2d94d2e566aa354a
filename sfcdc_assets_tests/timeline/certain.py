"""Which values of a version are certain, as tests ask for them."""

from __future__ import annotations

from typing import Any

from sfcdc_assets_tests.timeline.builders import (
    NAMES,
    change,
    everything,
)

CREATED = change("a", 1, "CREATE", **everything("x", Amount=2.5, Count=7))
ALL = set(NAMES[1:])


def certain(version: dict[str, Any]) -> set[str]:
    """The columns whose values are certain."""
    names = version["_certain_fields"]
    return ALL if names is None else set(names)


ALIVE = {"_is_deleted": False}
