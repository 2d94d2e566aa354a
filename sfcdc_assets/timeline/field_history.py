"""Rows of `AccountHistory` and its like: what they prove of a record's columns, second by second.

Salesforce writes a row for each change of a field whose history is tracked (Object Reference, "EntityHistory";
Salesforce Help, "Field History Tracking"). A row proves that its OldValue stood right before it and its NewValue right
after. What it does not have:

* an order within a second: rows of one second count together, and what was before and after all of them is proven where
  they lead from one value to another;
* the values of multi-select picklists and of texts that may be longer than 255 characters, nor those that are kept
  encrypted;
* one form: a lookup has two rows for a change, one with names and one with ids, and the one with ids counts; a change
  of owner may be called after what did it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.type_conversion import convert, int_of
from sfcdc_assets.salesforce.record_id import eighteen_characters, is_salesforce_id

LONGEST_VALUE = 255
"""Characters of a text that a row can hold."""
OWNER = "OwnerId"
CREATED = "created"
_NO_CHANGE = frozenset({CREATED, "feedEvent", "external", "locked", "unlocked", "individualMerged"})
"""What stands in `Field` for what is no change of a field."""
_OF_THE_OWNER = frozenset({"ownerassignment", "owneraccepted", "ownerescalated"})
_CALLED = {"textname": "name", "owner": OWNER.lower(), **dict.fromkeys(_OF_THE_OWNER, OWNER.lower())}
"""Names in `Field`, in lower case, of columns that are called otherwise; `TextName` is an account's name."""
_VALUELESS = frozenset({"multipicklist", "encryptedstring", "base64", "time", "address", "location"})
_IDS = "EntityId"


class Unknown:
    """The value of a column that nothing proves."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class Why(StrEnum):
    """Why something does not fit."""

    GAP = "gap"
    """The value after a change is not the one before the next: a change between them has no row."""
    NO_COLUMN = "no column"
    """The field is gone, hidden, or none of the object's columns."""
    UNREADABLE = "unreadable"
    """A value is not of the column's type, or the rows of a second lead from no value to another."""
    NO_ID = "no id"
    """Of a lookup's two rows the one with ids is missing."""
    BEFORE_CREATION = "before creation"
    """The row is older than the record."""


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One row, with values as REST's JSON has them."""

    id: str
    field: str
    old: Any
    new: Any
    created_date: datetime
    created_by_id: str | None = None
    data_type: str | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """What of the rows proves less than it should, and since when."""

    field: str
    at: datetime
    why: Why


@dataclass(frozen=True, slots=True)
class Change:
    """What a second's rows prove of a column: its value before all of them and after, or `UNKNOWN`."""

    at: datetime
    column: str
    before: Any
    after: Any
    users: frozenset[str | None]


@dataclass(frozen=True)
class Changes:
    """Changes in the order of time; when a row says that the record was created; what does not fit."""

    changes: tuple[Change, ...]
    created_at: datetime | None
    misfits: tuple[Misfit, ...]


def changes_of(columns: Sequence[Column], rows: Iterable[HistoryRow]) -> Changes:
    """Return what the rows of one record prove. Rows may come in any order, and twice."""
    by_name = _by_name(columns)
    found: list[tuple[datetime, str, HistoryRow]] = []
    created_at: datetime | None = None
    misfits: list[Misfit] = []
    for row in {row.id: row for row in rows}.values():
        at = second(row.created_date)
        column = _column(row.field, by_name)
        if row.field == CREATED:
            created_at = at if created_at is None else min(at, created_at)
        elif column is not None:
            found.append((at, column.name, row))
        elif row.field not in _NO_CHANGE:
            misfits.append(Misfit(row.field, at, Why.NO_COLUMN))
    changes = []
    named = {column.name: column for column in columns}
    found.sort(key=lambda each: each[:2])
    for (at, name), group in groupby(found, key=lambda each: each[:2]):
        of_second = [row for _, _, row in group]
        before, after, why = _proven(named[name], of_second)
        if why is not None:
            misfits.append(Misfit(name, at, why))
        changes.append(Change(at, name, before, after, frozenset(row.created_by_id for row in of_second)))
    return Changes(tuple(changes), created_at, tuple(misfits))


def columns_of_fields(columns: Sequence[Column], fields: Iterable[str]) -> tuple[Column, ...]:
    """Return those of the columns that rows are of, by what stands in their `Field`, in the order of the columns."""
    by_name = _by_name(columns)
    reported = {column.name for field in fields if (column := _column(field, by_name)) is not None}
    return tuple(column for column in columns if column.name in reported)


def second(at: datetime) -> datetime:
    """Return the beginning of its second."""
    return at.replace(microsecond=0)


def _by_name(columns: Sequence[Column]) -> dict[str, Column]:
    return {(column.field or column.name).lower(): column for column in columns if column.kept_from is None}


def _column(field: str, by_name: Mapping[str, Column]) -> Column | None:
    """Return the column of what `Field` says: its API name, or of a standard lookup the name without `Id`."""
    name = field.lower()
    found = by_name.get(_CALLED.get(name, name))
    if found is None:
        lookup = by_name.get(f"{name}id")
        found = lookup if lookup is not None and lookup.salesforce_type == "reference" else None
    return found


def _proven(column: Column, rows: Sequence[HistoryRow]) -> tuple[Any, Any, Why | None]:
    """Return the values before and after, and what does not fit."""
    if _is_valueless(column):
        return UNKNOWN, UNKNOWN, None
    if column.salesforce_type == "reference":
        own = [row for row in rows if row.field.lower() not in _OF_THE_OWNER]
        rows = _with_ids(own or rows)
        if not rows:
            return UNKNOWN, UNKNOWN, Why.NO_ID
    if any(row.old is None and row.new is None for row in rows):
        return UNKNOWN, UNKNOWN, None
    try:
        steps = [(_typed(column, row.old), _typed(column, row.new)) for row in rows]
    except (ValueError, OverflowError):
        return UNKNOWN, UNKNOWN, Why.UNREADABLE
    return _way(steps)


def _is_valueless(column: Column) -> bool:
    """Return whether its rows say that it changed, and not to what. Rows know no hashes, so neither do they of a hashed
    column."""
    if column.salesforce_type in _VALUELESS or column.large_text or column.hash_key is not None:
        return True
    if column.type is not ColumnType.STRING or column.salesforce_type == "reference":
        return False
    return column.shape is None or column.shape[0] > LONGEST_VALUE


def _with_ids(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """Return a lookup's rows with ids: those that say so, else those whose values are ids with their checksum."""
    if any(row.data_type == _IDS for row in rows):
        return [row for row in rows if row.data_type == _IDS]
    return [row for row in rows if all(each is None or _is_checked_id(each) for each in (row.old, row.new))]


def _is_checked_id(value: object) -> bool:
    """Return whether it can only be an id: a name may have 15 letters, and hardly three more that are their
    checksum."""
    if not isinstance(value, str) or len(value) != 18 or not is_salesforce_id(value):
        return False
    return eighteen_characters(value) == value


def _typed(column: Column, value: Any) -> Hashable:
    """Return a value as the column holds it. Raises `ValueError` and `OverflowError`."""
    if value is None or value == "":
        return None
    if column.salesforce_type == "reference":
        return eighteen_characters(str(value))
    if isinstance(value, str) and column.type in (ColumnType.BOOLEAN, ColumnType.INT, ColumnType.DOUBLE):
        return convert(value, ColumnType.STRING, column.type)
    typed: Hashable = FORMS[column.type].from_json(value)
    return int_of(typed) if column.type is ColumnType.INT and isinstance(typed, int) else typed


def _way(steps: Sequence[tuple[Hashable, Hashable]]) -> tuple[Any, Any, Why | None]:
    """Return where steps begin and end that are made one after another, each once, in whatever order that may be.

    On such a way each value is left as often as it is reached, but the first one, which is left once more, and the
    last. A round trip has neither: its values are proven, and not with which of them it begins.
    """
    left, reached = Counter(old for old, _ in steps), Counter(new for _, new in steps)
    first, last = left - reached, reached - left
    if not _hang_together(steps) or first.total() > 1:
        return UNKNOWN, UNKNOWN, Why.UNREADABLE
    if not first:
        return UNKNOWN, UNKNOWN, None
    return next(iter(first)), next(iter(last)), None


def _hang_together(steps: Sequence[tuple[Hashable, Hashable]]) -> bool:
    groups: list[set[Hashable]] = []
    for step in steps:
        met = [group for group in groups if not group.isdisjoint(step)]
        groups = [group for group in groups if group not in met] + [set(step).union(*met)]
    return len(groups) == 1
