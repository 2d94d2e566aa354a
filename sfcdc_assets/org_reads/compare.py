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
    both = _hashed(org, columns).join(_hashed(table, columns), on="Id", suffix="@table")
    unequal = both.filter(pl.col("hash") != pl.col("hash@table"))
    found = []
    for column in columns if unequal.height else ():
        pairs = unequal.filter(pl.col(column).ne_missing(pl.col(f"{column}@table")))
        for record_id, in_org, in_table in pairs.select("Id", column, f"{column}@table").iter_rows():
            found.append(Difference(entity, record_id, column, _described(in_org), _described(in_table)))
    return found


def _hashed(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    return rows.select("Id", *columns, rows.select(columns).hash_rows().alias("hash"))


def one_sided(entity: str, record_ids: Sequence[str], kind: str) -> list[Difference]:
    """Return records that only one side has."""
    return [Difference(entity, record_id, None, None, None, kind) for record_id in record_ids]


def _described(value: object) -> str | None:
    return None if value is None else str(value)
