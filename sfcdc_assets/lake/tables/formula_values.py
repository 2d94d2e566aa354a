"""`formula_values/<Entity>`: the values of formula fields as they were last read from the org, one row a record.

They stand apart from what events prove. A row says when it was read (`_formulas_as_of`). What the table remembers as
transaction versions comes with the rows in one commit: how far the changes of the entity and of the objects that its
formulas read were followed, as batches of their tables, which formulas the values are of, and since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.change_events.columns import Column, columns_of_arrow_schema
from sfcdc_assets.formulas.formula_columns import AS_OF, row_schema
from sfcdc_assets.formulas.rereads import Values
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.current_state import conditions_on_ids
from sfcdc_assets.lake.tables.earlier_formula_values import forget_earlier
from sfcdc_assets.lake.tables.rows_by_id import put_rows
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import EPOCH, epoch_ms, utc

LAYER = "formula_values"
_FORMULAS, _SINCE = "formulas", "formulas since"
_FOLLOWED, _UP_TO, _BEGAN = "followed ", "up to ", "window began"
_NEVER = EPOCH


@dataclass(frozen=True)
class Window:
    """Changes that are being followed, which a budget was not enough for at once: `began` is when the first of their
    records was read, `up_to` the last batch of each object that is in it."""

    began: datetime
    up_to: Mapping[str, int]


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
        table = Table.open_or_create(warehouse, name_of(entity), schema, statistics_on=["Id", AS_OF])
        table.add_columns([field for field in schema if field.name not in table.schema.names])
        return cls(table, warehouse.filesystem(table.name))

    @property
    def since(self) -> datetime:
        """Since when the formulas are these: what was read before is of others."""
        return utc(self.table.transaction_version(_SINCE) or 0)

    def window(self, entities: Iterable[str]) -> Window | None:
        """Return the changes of these objects that are being followed; None where all were read that were noticed."""
        began = self.table.transaction_version(_BEGAN)
        up_to = {each: self.table.transaction_version(f"{_UP_TO}{each}") for each in entities}
        known = {each: batch for each, batch in up_to.items() if batch is not None}
        return Window(utc(began), known) if began else None

    def read_since(self, moment: datetime) -> set[str]:
        """Return the records whose values were read then or later."""
        return {
            each
            for part in self.table.batches(["Id"], f"{AS_OF} >= {literal_time(moment)}")
            for each in part["Id"].to_pylist()
        }

    def ids(self) -> pl.Series:
        """Return the records that have a row."""
        return pl.concat(
            [
                pl.Series("Id", [], pl.String),
                *(pl.DataFrame(part)["Id"].cast(pl.String) for part in self.table.batches(["Id"], "Id is not null")),
            ]
        )

    def oldest(self) -> datetime | None:
        """Return when the value was read that is the oldest; None where there is none."""
        statistics = self.table.file_statistics()
        column = f"min.{AS_OF}"
        found = statistics[column].min() if statistics.height and column in statistics.columns else None
        return found.astimezone(UTC) if isinstance(found, datetime) else None

    @property
    def columns(self) -> tuple[Column, ...]:
        """`Id` and the formula fields."""
        return columns_of_arrow_schema(self.table.schema)

    @property
    def fingerprint(self) -> int | None:
        """Return which formulas the values are of; None before they were read whole."""
        return self.table.transaction_version(_FORMULAS)

    def followed(self, entity: str) -> int:
        """Batch up to which the changes of an object, the own one or a parent's, were followed; 0 before any."""
        return self.table.transaction_version(f"{_FOLLOWED}{entity}") or 0

    def follows(self, entity: str) -> bool:
        """Return whether the changes of an object are followed."""
        return self.table.transaction_version(f"{_FOLLOWED}{entity}") is not None

    def values(self, records: int, *, now: datetime, day_began: datetime, too_old: datetime, most: int) -> Values:
        """Return what a plan needs of the table, of `records` living ones; the ids and times of `most` rows are held.

        What was never read has no row here: whoever plans puts it before `oldest`. A value that is of other formulas
        (`since`) counts as never read, and so does one that was read later than `now`: a clock that was ahead has been
        set back.
        """
        rows = before_today = stale = 0
        of_others, since = 0, self.since
        oldest = pl.DataFrame(schema={"Id": pl.String, AS_OF: pl.Datetime("us", "UTC")})
        for part in self.table.batches(["Id", AS_OF], "Id is not null"):
            found = pl.DataFrame(part)
            read_at = pl.when(pl.col(AS_OF) > now).then(pl.lit(_NEVER)).otherwise(pl.col(AS_OF))
            found = found.with_columns(read_at.alias(AS_OF))
            rows += found.height
            of_others += int((found[AS_OF] < since).sum())
            before_today += int(found[AS_OF].is_between(since, day_began, "left").sum())
            stale += int(found[AS_OF].is_between(since, too_old, "left").sum())
            oldest = pl.concat([oldest, found.cast(oldest.schema)]).sort(AS_OF, "Id").head(most)
        times = ((record_id, None if at < since else at) for record_id, at in oldest.iter_rows())
        return Values(records, max(records - rows, 0) + of_others, before_today, stale, tuple(times))

    def rows_of(self, record_ids: Sequence[str]) -> pa.Table:
        """Return the rows of these records."""
        names = self.table.schema.names
        parts = [self.table.scan(names, of_records) for of_records in conditions_on_ids(record_ids)]
        return pa.concat_tables(parts) if parts else self.table.schema.empty_table()

    def known(self, record_ids: Sequence[str]) -> set[str]:
        """Return those of the records that have a row."""
        found: set[str] = set()
        for of_records in conditions_on_ids(record_ids):
            found.update(self.table.scan(["Id"], of_records)["Id"].to_pylist())
        return found

    def commit(
        self,
        rows: pa.Table,
        gone: Sequence[str],
        followed: Mapping[str, int],
        fingerprint: int | None = None,
        window: Window | None = None,
    ) -> None:
        """Put rows that were read in the place of theirs, and remove those of records that are gone, in one commit.

        What is remembered comes with the rows: batches by object, the changes that are not all followed yet
        (`window`; None: there are none), and `fingerprint` where all values are now of the formulas that it stands for.
        A page of a whole read is committed so too. Raises `ConcurrentCommit` after any commit since this handle was
        opened.
        """
        put_rows(self.table, self._filesystem, rows, gone, _remembered(followed, fingerprint, window))

    def end_whole_read(self, began: datetime, followed: Mapping[str, int], fingerprint: int) -> int:
        """Remove the rows that a whole read, whose pages were committed as they came, has not brought; returns how many
        there were. Their records are gone, or the user does not see them any more. Raises `ConcurrentCommit`."""
        transactions = _remembered(followed, fingerprint, None)
        removed = self.table.delete_rows(f"{AS_OF} < {literal_time(began)}", transactions)
        if not removed:
            self.table.append(self.table.schema.empty_table(), transactions, {})
        return removed


@retry_on_conflict
def values_of_formulas(
    warehouse: Warehouse,
    entity: str,
    columns: Sequence[Column],
    fingerprint: int,
    followed: Mapping[str, int],
    now: datetime,
) -> FormulaValues:
    """Return the newest snapshot of a table whose values are those of these formulas, or are to be read.

    Where they are others than before, all values count as unread from `now` on, and the changes of objects are
    followed from these batches. Where the table has a column that is not wanted any more, or of another type,
    nothing of it stays: a value that may not be kept is gone at once.
    """
    values = FormulaValues.open(warehouse, entity) or FormulaValues.open_or_create(warehouse, entity, columns)
    if values.fingerprint == fingerprint:
        return values
    wanted, remembered = row_schema(columns), {f"{_FOLLOWED}{name}": batch for name, batch in followed.items()}
    remembered |= {_FORMULAS: fingerprint, _SINCE: epoch_ms(now), _BEGAN: 0}
    present = values.table.schema
    if {(field.name, field.type) for field in present} <= {(field.name, field.type) for field in wanted}:
        values.table.add_columns([field for field in wanted if field.name not in present.names])
        values.table.append(values.table.schema.empty_table(), remembered, {})
    else:
        forget_earlier(warehouse, entity, wanted)
        values.table.rewrite([], wanted, remembered)
        values.table.forget_older_versions()
    return values


@retry_on_conflict
def follow_anew(warehouse: Warehouse, entity: str) -> None:
    """Have all records of an entity count as changed for every formula that reads it: its tables were built again, and
    their batches are numbered from the start."""
    for each in warehouse.entities(LAYER):
        values = FormulaValues.open(warehouse, each)
        if values is not None and values.followed(entity):
            values.table.append(values.table.schema.empty_table(), {f"{_FOLLOWED}{entity}": 0}, {})


def _remembered(followed: Mapping[str, int], fingerprint: int | None, window: Window | None) -> dict[str, int]:
    found = {} if fingerprint is None else {_FORMULAS: fingerprint}
    found |= {f"{_FOLLOWED}{entity}": batch for entity, batch in followed.items()}
    if window is None:
        return found | {_BEGAN: 0}
    return found | {_BEGAN: epoch_ms(window.began)} | {f"{_UP_TO}{name}": batch for name, batch in window.up_to.items()}
