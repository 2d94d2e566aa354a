"""`formula_values/<Entity>`: the values of formula fields as they were last read from the org, one row a record.

They stand apart from what events prove. A row says when it was read (`_formulas_as_of`) and up to which position the
record's own changes had been seen by then (`_position`). What the table remembers as transaction versions comes with
the rows in one commit: how far the changes of the entity and of the objects that its formulas read were followed, and
which formulas the values are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.change_events.columns import Column, columns_of_arrow_schema
from sfcdc_assets.formulas.formula_columns import AS_OF, POSITION, row_schema
from sfcdc_assets.formulas.rereads import Values
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.current_state import IDS_PER_SCAN
from sfcdc_assets.lake.tables.rows_by_id import put_rows
from sfcdc_assets.lake.warehouse import Warehouse

LAYER = "formula_values"
_FORMULAS = "formulas"
_FOLLOWED = "followed "


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


class FormulaValues:
    """A handle on one snapshot of the table; commits go through the snapshot that was read."""

    def __init__(self, table: Table, filesystem: fs.FileSystem) -> None:
        """`filesystem`: rooted at the table."""
        self.table = table
        self._filesystem = filesystem

    @classmethod
    def open(cls, warehouse: Warehouse, entity: str) -> FormulaValues | None:
        """Return the newest snapshot; None where no formula of the entity was ever read."""
        table = Table.open(warehouse, name_of(entity))
        return None if table is None else cls(table, warehouse.filesystem(table.name))

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> FormulaValues:
        """Return the newest snapshot with a column for each of these: the table is created, or widened. Raises
        `ConcurrentCommit`."""
        schema = row_schema(columns)
        table = Table.open_or_create(warehouse, name_of(entity), schema, statistics_on=["Id", AS_OF, POSITION])
        table.add_columns([field for field in schema if field.name not in table.schema.names])
        return cls(table, warehouse.filesystem(table.name))

    @property
    def columns(self) -> tuple[Column, ...]:
        """`Id` and the formula fields."""
        return columns_of_arrow_schema(self.table.schema)

    @property
    def fingerprint(self) -> int | None:
        """Return which formulas the values are of; None before they were read whole."""
        return self.table.transaction_version(_FORMULAS)

    def followed(self, entity: str) -> int:
        """Position up to which the changes of an object, the own one or a parent's, were followed; 0 before any."""
        return self.table.transaction_version(f"{_FOLLOWED}{entity}") or 0

    def values(self, records: int, *, day_began: datetime, too_old: datetime, most: int) -> Values:
        """Return what a plan needs of the table, of `records` living ones; the ids and times of `most` rows are held.

        What was never read has no row here: whoever plans puts it before `oldest`.
        """
        rows = before_today = stale = 0
        oldest = pl.DataFrame(schema={"Id": pl.String, AS_OF: pl.Datetime("us", "UTC")})
        for part in self.table.batches(["Id", AS_OF], "Id is not null"):
            found = pl.DataFrame(part)
            rows += found.height
            before_today += int((found[AS_OF] < day_began).sum())
            stale += int((found[AS_OF] < too_old).sum())
            oldest = pl.concat([oldest, found.cast(oldest.schema)]).sort(AS_OF, "Id").head(most)
        return Values(records, max(records - rows, 0), before_today, stale, tuple(oldest.iter_rows()))

    def known(self, record_ids: Sequence[str]) -> set[str]:
        """Return those of the records that have a row."""
        found: set[str] = set()
        for start in range(0, len(record_ids), IDS_PER_SCAN):
            found.update(self.table.scan(["Id"], _among(record_ids[start : start + IDS_PER_SCAN]))["Id"].to_pylist())
        return found

    def commit(
        self, rows: pa.Table, gone: Sequence[str], followed: Mapping[str, int], fingerprint: int | None = None
    ) -> None:
        """Put rows that were read in the place of theirs, and remove those of records that are gone, in one commit.

        What is remembered comes with the rows: positions by object, and `fingerprint` where all values are now of the
        formulas that it stands for. A page of a whole read is committed so too. Raises `ConcurrentCommit` after any
        commit since this handle was opened.
        """
        put_rows(self.table, self._filesystem, rows, gone, _remembered(followed, fingerprint))

    def end_whole_read(self, began: datetime, followed: Mapping[str, int], fingerprint: int) -> int:
        """Remove the rows that a whole read, whose pages were committed as they came, has not brought; returns how many
        there were. Their records are gone, or the user does not see them any more. Raises `ConcurrentCommit`."""
        transactions = _remembered(followed, fingerprint)
        removed = self.table.delete_rows(f"{AS_OF} < {_timestamp(began)}", transactions)
        if not removed:
            self.table.append(self.table.schema.empty_table(), transactions, {})
        return removed


def _remembered(followed: Mapping[str, int], fingerprint: int | None) -> dict[str, int]:
    formulas = {} if fingerprint is None else {_FORMULAS: fingerprint}
    return {f"{_FOLLOWED}{entity}": position for entity, position in followed.items()} | formulas


def _timestamp(moment: datetime) -> str:
    return f"arrow_cast('{moment.astimezone(UTC).isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _among(record_ids: Sequence[str]) -> str:
    listed = ", ".join("'" + each.replace("'", "''") + "'" for each in record_ids)
    return f"Id in ({listed})"
