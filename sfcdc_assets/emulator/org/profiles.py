"""Profiles: what users may do at most. The integration user has the first; people have one of the others."""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.emulator.org.ids import new_id

_NAMES = ("Minimum Access - API Only Integrations", "Standard User", "System Administrator")
_PREFIX = "00e"


@dataclass(frozen=True)
class Profile:
    """One profile; `id` has 18 characters."""

    id: str
    name: str
    views_all_data: bool


def profiles(instance: str) -> tuple[Profile, ...]:
    """Return those of every org. `instance`: the characters of the org's instance in ids."""
    return tuple(
        Profile(new_id(_PREFIX, instance, number), name, name == "System Administrator")
        for number, name in enumerate(_NAMES, 1)
    )
