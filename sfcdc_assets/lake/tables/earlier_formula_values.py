"""`earlier_formula_values/<Entity>`: values of formula fields that were read before those of `formula_values`, each
with when that was (`_formulas_as_of`), for the versions in `history`.

A value that is read again is kept where it was another one, or where the record has got a version since: what it was in
that version nobody could say otherwise. A row may be there twice after a crash; both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.rows_by_id import ID, WRITER
from sfcdc_assets.lake.warehouse import Warehouse

LAYER = "earlier_formula_values"
_BEGAN = "_valid_from"


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


class EarlierFormulaValues:
    """A handle on one snapshot of the table; an erasure since then refuses its commits."""

    def __init__(self, warehouse: Warehouse, entity: str, schema: pa.Schema) -> None:
        """Open it, or create it, with the columns of `schema` (of `formula_values`). Raises `ConcurrentCommit`."""
        self._warehouse, self._entity = warehouse, entity
        self._table = Table.open_or_create(warehouse, name_of(entity), schema, statistics_on=[ID, AS_OF])
        self._table.add_columns([field for field in schema if field.name not in self._table.schema.names])

    def keep(self, before: pa.Table, now: pa.Table) -> None:
        """Keep what `before` says and these rows of the same records do not say as well. Records that have none any
        more are kept. Raises `ConcurrentCommit` after an erasure since the table was opened."""
        replaced = _replaced(arrow_frame(before), arrow_frame(now), self._began(before[ID].to_pylist()))
        if replaced.height:
            rows = replaced.to_arrow().cast(pa.schema([before.schema.field(name) for name in replaced.columns]))
            every = {name: _column(rows, name, self._table.schema) for name in self._table.schema.names}
            self._table.append(pa.table(every, schema=self._table.schema), {WRITER: 1}, {})

    def _began(self, record_ids: Sequence[str]) -> pl.DataFrame:
        """When the records' current versions began."""
        none = pl.DataFrame(schema={ID: pl.String, _BEGAN: pl.Datetime("us", "UTC")})
        current = CurrentState.open(self._warehouse, self._entity)
        return none if current is None else current.rows_of(record_ids, [ID, _BEGAN]).cast(none.schema)


def forget_earlier(warehouse: Warehouse, entity: str, schema: pa.Schema) -> None:
    """Remove all of them, and the files of older versions: values that may not be kept are gone at once. `schema`: of
    those that come."""
    table = Table.open(warehouse, name_of(entity))
    if table is not None:
        table.rewrite([], schema, {})
        table.forget_older_versions()


def _replaced(before: pl.DataFrame, now: pl.DataFrame, began: pl.DataFrame) -> pl.DataFrame:
    columns = [each for each in before.columns if each not in (ID, AS_OF) and each in now.columns]
    both = before.join(now, on=ID, how="left", suffix="@now", coalesce=True).join(began, on=ID, how="left")
    differs = [pl.col(each).ne_missing(pl.col(f"{each}@now")) for each in columns]
    is_of_another_version = (pl.col(_BEGAN) > pl.col(AS_OF)).fill_null(value=False)
    is_kept = pl.any_horizontal(*differs, pl.col(f"{AS_OF}@now").is_null(), is_of_another_version)
    return both.filter(is_kept).select(before.columns)


def _column(rows: pa.Table, name: str, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    return rows[name] if name in rows.column_names else pa.nulls(rows.num_rows, schema.field(name).type)
