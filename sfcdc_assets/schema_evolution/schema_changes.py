"""What changed between two schemas of a table: what a person wants to hear of, in few words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from sfcdc_assets.schema_evolution.table_columns import RETIRED

KEPT_BEFORE = re.compile(r"(.+)__before_\d+")
"""Name of a column with the values that did not convert when the type of its field changed."""


class ChangeOfColumn(StrEnum):
    """What may happen to a column."""

    ADDED = "added"
    RETIRED = "retired"
    """The object no longer has the field; the column and its last values stay."""
    RETURNED = "returned"
    """The object has a field of a retired column again."""
    RETYPED = "retyped"
    KEPT_BEFORE = "kept before"
    """Values of a changed type that do not convert are kept in a column of their own."""
    REMOVED = "removed"


NOT_RETIRED = dict.fromkeys(RETIRED, "false")
"""Metadata of a column whose field came back: Delta can set a column's metadata and not take it away."""


@dataclass(frozen=True)
class SchemaChange:
    """One column's change; `detail` is the type, or both types."""

    column: str
    change: ChangeOfColumn
    detail: str

    def __str__(self) -> str:
        return f"{self.column} {self.change} ({self.detail})"


def schema_changes(before: pa.Schema | None, after: pa.Schema) -> tuple[SchemaChange, ...]:
    """Return the changes, in the order of the columns, those that are gone at the end; none for a table that was not
    there."""
    if before is None:
        return ()
    old = {field.name: field for field in before}
    found = [_change(old.pop(field.name, None), field) for field in after]
    removed = [SchemaChange(name, ChangeOfColumn.REMOVED, column_type(field)) for name, field in old.items()]
    return tuple(change for change in (*found, *removed) if change is not None)


def is_retired(field: pa.Field) -> bool:
    """Return whether a column is marked as one whose field the object no longer has."""
    return RETIRED.items() <= _metadata(field).items()


def column_type(field: pa.Field) -> str:
    """Return the type as Salesforce calls it, and as Arrow does where that says more."""
    salesforce, arrow = _metadata(field).get("salesforce.type"), str(field.type)
    return arrow if salesforce in (None, arrow) else f"{salesforce}, {arrow}"


def _change(old: pa.Field | None, new: pa.Field) -> SchemaChange | None:
    if old is None:
        if KEPT_BEFORE.fullmatch(new.name):
            return SchemaChange(new.name, ChangeOfColumn.KEPT_BEFORE, column_type(new))
        # A column that came and lost its field between the two schemas is shown by what it is now.
        return SchemaChange(
            new.name, ChangeOfColumn.RETIRED if is_retired(new) else ChangeOfColumn.ADDED, column_type(new)
        )
    if column_type(old) != column_type(new):
        return SchemaChange(new.name, ChangeOfColumn.RETYPED, f"{column_type(old)} -> {column_type(new)}")
    if is_retired(old) != is_retired(new):
        change = ChangeOfColumn.RETIRED if is_retired(new) else ChangeOfColumn.RETURNED
        return SchemaChange(new.name, change, column_type(new))
    return None


def _metadata(field: pa.Field) -> Mapping[str, str]:
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
