"""Column privacy: which columns of an entity reach no table, and of which the tables hold keyed hashes only.

The rule is kept where columns are made: one that is left out is in no query and is not decoded, and a hashed one brings
the key with it to the place where a value becomes a cell. So whatever is made from columns (texts, history, samples,
messages, comparisons) has nothing to obey.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.settings.setting_types import KEPT_FIELDS

if TYPE_CHECKING:
    from sfcdc_assets.settings.settings import Settings

Compounds = Mapping[str, Collection[str]]
"""Column -> the compound fields that it is a component of: MailingCity -> MailingAddress."""


@dataclass(frozen=True, slots=True)
class FieldPattern:
    """`Contact.Email`, `*.Phone`, `Lead.*`; of fields in any case, because a field may be made again in another one."""

    entity: str
    field: str

    @classmethod
    def read(cls, text: str) -> FieldPattern:
        """Read the form that settings have, which are checked there."""
        entity, _, field = text.partition(".")
        return cls(entity, field)

    def covers(self, entity: str | None, names: Iterable[str]) -> bool:
        """Return whether it names a field of the entity that has one of these names; None: it may be any entity, as it
        is not known which."""
        return self.is_about(entity) and any(fnmatchcase(name.lower(), self.field.lower()) for name in names)

    def is_about(self, entity: str | None) -> bool:
        """Return whether it may name a field of the entity; None: of any."""
        return entity is None or fnmatchcase(entity, self.entity)

    def __str__(self) -> str:
        return f"{self.entity}.{self.field}"


@dataclass(frozen=True, slots=True)
class PrivacyConflict:
    """A column of a table that is not as the settings want it, with what they want: `left out`, `hashed` ..."""

    column: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.column} is to be {self.wanted}"


@dataclass(frozen=True, slots=True)
class Privacy:
    """What SFCDC_EXCLUDE and SFCDC_HASH say. Excluding wins over hashing; `key` is set where anything is hashed."""

    excluded: tuple[FieldPattern, ...] = ()
    hashed: tuple[FieldPattern, ...] = ()
    key: HashKey | None = None

    def __post_init__(self) -> None:
        if self.hashed and self.key is None:
            raise ValueError("columns are to be hashed, and there is no key")

    @classmethod
    def of(cls, settings: Settings) -> Privacy:
        """Return the settings' rules."""
        return cls(
            tuple(map(FieldPattern.read, settings.exclude)),
            tuple(map(FieldPattern.read, settings.hash)),
            HashKey.of(settings.hash_key.get_secret_value()) if settings.hash and settings.hash_key else None,
        )

    def concerns(self, entity: str | None) -> bool:
        """Return whether any rule is about the entity; None: about any, as it is not known which."""
        return any(rule.is_about(entity) for rule in (*self.excluded, *self.hashed))

    def withholds(self, entity: str, names: Iterable[str]) -> bool:
        """Return whether a field of the entity that has one of these names is left out or hashed."""
        names = tuple(names)
        return any(rule.covers(entity, names) for rule in (*self.excluded, *self.hashed))

    def columns(self, entity: str | None, columns: Iterable[Column], compounds: Compounds) -> tuple[Column, ...]:
        """Return the columns that tables get: without those that are left out, hashed ones with the key. `entity` None:
        it is not known, so that the rules of all count."""
        wanted = (self._wanted(entity, column, compounds) for column in columns)
        return tuple(column for column in wanted if column is not None)

    def conflicts(self, entity: str, table: Sequence[Column], compounds: Compounds) -> tuple[PrivacyConflict, ...]:
        """Columns of a table that has more than the rules allow, or hashes that they do not ask for or of another
        key. A column that is no longer left out is none: the table gets it as it gets any new one."""
        found = []
        for column in table:
            wanted = self._wanted(entity, column, compounds)
            if wanted is None:
                found.append(PrivacyConflict(column.name, "left out"))
            elif wanted.hash_key != column.hash_key:
                again = "hashed" if column.hash_key is None else "hashed with another key"
                found.append(PrivacyConflict(column.name, again if wanted.hash_key else "hashed no longer"))
        return tuple(found)

    def unmatched(self, fields: Mapping[str, Collection[str]]) -> tuple[str, ...]:
        """Rules that name none of the entities' fields (entity -> names, of compounds too): mistyped, perhaps."""
        rules = (*self.excluded, *self.hashed)
        return tuple(str(rule) for rule in rules if not any(rule.covers(name, known) for name, known in fields.items()))

    def _wanted(self, entity: str | None, column: Column, compounds: Compounds) -> Column | None:
        if column.name in KEPT_FIELDS:
            return column
        names = (column.name, *compounds.get(column.name, ()))
        if any(rule.covers(entity, names) for rule in self.excluded):
            return None
        if self.key is not None and any(rule.covers(entity, names) for rule in self.hashed):
            return column.hashed(self.key)
        return column if column.hash_key is None else column.plain()


NOTHING_PRIVATE = Privacy()
