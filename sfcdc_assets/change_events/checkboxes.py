"""Preferences: one field of an event lists the true ones of a group of checkboxes (docs/salesforce-streams.md, "User
preferences").

REST and the tables have the checkboxes (`UserPreferencesReminderSoundOff`), an event has lists (`UserPreferences`) of
the true ones of each group of at most 32 that a change touched; a list may hold those of several groups. Whoever is not
named in its group is false. Which group a checkbox belongs to is nowhere said, but a list's name begins the names of
its checkboxes: where one group has a beginning for itself, or all groups of a beginning came, as in the event of a new
record, nothing is left open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sfcdc_assets.change_events.event_schema import SchemaField

MOST_IN_A_LIST = 32
"""Checkboxes of one group."""


def is_list(field: SchemaField) -> bool:
    """Return whether the event field is a list of names."""
    return field.scalar == "array"


def stem(list_name: str) -> str:
    """Return what the names of a list's checkboxes begin with: `UserPreferences` for `UserPreferences2`."""
    return list_name.rstrip("0123456789")


def checkboxes_of(list_name: str, names: Iterable[str]) -> list[str]:
    """Return the names that may stand in the list."""
    beginning = stem(list_name)
    return [name for name in names if name.startswith(beginning) and name != list_name]


@dataclass(frozen=True, slots=True)
class Checkboxes:
    """The lists that share a beginning, and the columns of its checkboxes."""

    stem: str
    lists: tuple[str, ...]
    columns: Mapping[str, int]

    def read(
        self, body: Mapping[str, Sequence[str] | None], touched: Collection[str], *, has_all_groups: bool = False
    ) -> tuple[list[tuple[int, bool]], str | None]:
        """Return the cells that the touched lists set, and what they leave open, in words (None: nothing); then each
        checkbox without a cell may have changed. `has_all_groups`: the event is of a whole record.

        A name may stand in a list with or without the beginning.
        """
        named = {
            name if name.startswith(self.stem) else self.stem + name for each in touched for name in body[each] or ()
        }
        unknown = sorted(named - self.columns.keys())
        if unknown:
            problem: str | None = f"{', '.join(unknown)} is no checkbox of the object"
        elif not has_all_groups and (
            set(touched) < set(self.lists) or len(self.columns) > MOST_IN_A_LIST * len(self.lists)
        ):
            problem = "which of the checkboxes that it does not name belong to it is not known"
        else:
            return [(column, name in named) for name, column in self.columns.items()], None
        known = [(column, True) for name, column in self.columns.items() if name in named]
        return known, f"{', '.join(touched)}: {problem}"
