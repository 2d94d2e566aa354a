"""Names of settings: one that nothing reads is a typing error, and would be ignored in silence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sfcdc_assets.errors import SettingsError

PREFIX = "SFCDC_"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a wrong one, whatever its case; None when none is."""
    by_lower = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def check_names(names: Iterable[str], known: Iterable[str], families: Iterable[str]) -> None:
    """Raise `SettingsError` for the first name with our prefix that is neither known nor begins as a family does.

    Case does not matter, as the settings are read without regard to it.
    """
    right = set(known)
    for name in sorted(names):
        given = name.upper()
        if not given.startswith(PREFIX) or given in right:
            continue
        if any(given.startswith(family) and given != family for family in families):
            continue
        near = nearest(given.removeprefix(PREFIX), (each.removeprefix(PREFIX) for each in right))
        remedy = f"Did you mean {PREFIX}{near}?" if near else "The README lists them all."
        raise SettingsError(name, "is not a setting", f"{remedy} Correct it in the environment or in .env")
