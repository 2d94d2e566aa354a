"""Compare rows of a table with the org's own, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

MISSING = "missing in the table"
EXTRA = "not in the org"


@dataclass(frozen=True)
class Difference:
    """One value that differs, or a record that only one side has (`field` is then None)."""

    entity: str
    record_id: str
    field: str | None
    in_org: str | None
    in_table: str | None
    kind: str = "differs"

    @property
    def place(self) -> str:
        """Which record and field, and what is wrong, without a value: what may stand where everybody looks."""
        return f"{self.entity} {self.record_id}: {self.field + ' ' if self.field else ''}{self.kind}"

    def __str__(self) -> str:
        if self.field is None:
            return self.place
        return f"{self.entity} {self.record_id} {self.field}: org {self.in_org!r}, table {self.in_table!r}"


def different_values(entity: str, org: pl.DataFrame, table: pl.DataFrame, columns: Sequence[str]) -> list[Difference]:
    """Values that differ in records that both sides have. Null equals null only; NaN equals NaN.

    Rows are compared by a hash of all their values first; only those whose hashes differ are looked at by field.
    """
    if not columns:
        return []
    both = _hashes(org, columns).join(_hashes(table, columns), on="Id", suffix="@table")
    unequal = both.filter(pl.col("hash") != pl.col("hash@table"))
    if unequal.is_empty():
        return []
    in_org, in_table = org[unequal["row"]], table[unequal["row@table"]]
    found = []
    for column in columns:
        pairs = pl.DataFrame([in_org["Id"], in_org[column].rename("org"), in_table[column].rename("table")])
        for record_id, theirs, ours in pairs.filter(pl.col("org").ne_missing(pl.col("table"))).iter_rows():
            found.append(Difference(entity, record_id, column, _described(theirs), _described(ours)))
    return found


def _hashes(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return `hash` of each row's values, beside its Id and its number."""
    return rows.select("Id", rows.select(columns).hash_rows().alias("hash"), pl.int_range(pl.len()).alias("row"))


def one_sided(entity: str, record_ids: Sequence[str], kind: str) -> list[Difference]:
    """Return records that only one side has."""
    return [Difference(entity, record_id, None, None, None, kind) for record_id in record_ids]


def _described(value: object) -> str | None:
    return None if value is None else str(value)
