"""The query of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.object_description import STAMPS

ID = "Id"
IS_DELETED = "IsDeleted"
SYSTEM_MODSTAMP = "SystemModstamp"
MASTER_RECORD_ID = "MasterRecordId"
_ALWAYS = (ID, IS_DELETED, SYSTEM_MODSTAMP)


def selected_fields(column_names: Sequence[str], described: Collection[str]) -> tuple[str, ...]:
    """Return the fields a snapshot asks for: Id, IsDeleted, SystemModstamp (of an object that has none, its best
    stamp), the columns, and MasterRecordId if there is one.

    `described`: API names of the fields the user may read. The event schema lists fields that are hidden from the user
    (it ignores field-level security), and one of those would refuse the whole query, so they are left out.
    """
    # SOQL takes a name in any case, and the answer is read in any.
    spelt = by_any_case(described)
    columns = [name for name in column_names if name.lower() in spelt and name not in _ALWAYS]
    if SYSTEM_MODSTAMP not in described:
        columns += [name for name in (stamp_among(described),) if name is not None and name not in columns]
    if MASTER_RECORD_ID in described and MASTER_RECORD_ID not in columns:
        columns.append(MASTER_RECORD_ID)
    return (*(name for name in _ALWAYS if name in described), *columns)


def stamp_among(fields: Collection[str]) -> str | None:
    """Return the best of the fields that say when a record was changed; None where there is none."""
    return next((name for name in STAMPS if name in fields), None)


@dataclass(frozen=True)
class IdWindow:
    """Ids from `lower` up to and without `upper`; None: no end on that side. Ids order as their characters do."""

    lower: str | None = None
    upper: str | None = None

    @property
    def condition(self) -> str:
        """The window as a condition of SOQL and of a table scan alike; empty for all Ids."""
        return self.condition_on(ID)

    def condition_on(self, name: str) -> str:
        """Return the window as a condition on a field that refers to records by their Ids; empty for all Ids."""
        parts = [f"{name} >= '{self.lower}'"] if self.lower is not None else []
        parts += [f"{name} < '{self.upper}'"] if self.upper is not None else []
        return " AND ".join(parts)

    def has(self, record_id: str) -> bool:
        """Return whether an Id lies in the window."""
        return (self.lower is None or record_id >= self.lower) and (self.upper is None or record_id < self.upper)


def snapshot_query(entity: str, fields: Sequence[str], where: str | None = None) -> str:
    """SELECT of these fields of all records, or of those for which a condition holds.

    No ORDER BY and no LIMIT: either would switch off the org's chunking.
    """
    return f"SELECT {', '.join(fields)} FROM {entity}{where_all(where)}"


def all_of(*conditions: str | None) -> str | None:
    """Return one condition that holds where all of those do that there are; None where there is none."""
    return " AND ".join(each for each in conditions if each) or None


def where_all(*conditions: str | None) -> str:
    """Return the conditions that there are as a WHERE clause, with a space before it; nothing where there is none."""
    every = all_of(*conditions)
    return f" WHERE {every}" if every else ""
