"""All tables at one consistent cut, for notebooks and programs: they show the org after one transaction, over all
objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sfcdc_assets.lake.delta.readable_table import ReadableTable
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import EntitiesLag
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

    from sfcdc_assets.lake.tables.consistent_cuts import Cut, Lagging
    from sfcdc_assets.lake.tables.open_cut import DeltaTable
    from sfcdc_assets.spark.cut_rows import DataFrame, SparkSession

LIVE = "not _is_deleted"


def open_cut(
    warehouse: str,
    at: datetime | None = None,
    strict: bool = False,  # noqa: FBT001, FBT002 - a promise to other programs
    *,
    channel: str | None = None,
) -> ConsistentCut:
    """Return the newest cut of each channel of the warehouse at this root, or the newest committed at or before `at`
    (with zone); `channel`: of one channel only.

    An entity that lags is shown as of its own last batch, and `lagging` has it; with `strict`, asking for it raises
    `EntitiesLag`. Raises `NoCut` where there is none.
    """
    opened = Warehouse(warehouse)
    return ConsistentCut(TablesOfCuts(opened, cuts_at(opened, at, channel), strict=strict, formulas=at is None))


class ConsistentCut(Mapping[str, "DeltaTable"]):
    """Path below the warehouse, as `current_state/Account` -> the table at the cut's version, opened when asked for.

    The methods give the live records of an entity, `deleted=True` those of deleted ones too; columns are those of
    `current_state`. A table that was rebuilt, or cleaned up by others, since the cut raises `CutGone`.
    """

    def __init__(self, tables: TablesOfCuts) -> None:
        self._tables = tables

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """One of each channel."""
        return self._tables.cuts

    @property
    def entities(self) -> tuple[str, ...]:
        """Those that can be asked for."""
        return tuple(each for each in self._tables.shown if current_state.LAYER in self._tables.layers(each))

    @property
    def lagging(self) -> Mapping[str, Lagging]:
        """Entity -> where it stands, since when it lags and why, of those that do not stand at the cut."""
        return self._tables.lagging

    @property
    def as_of(self) -> Mapping[str, datetime | None]:
        """Entity -> when the last transaction was committed that it shows; None before the first event."""
        return {entity: self._tables.as_of(entity) for entity in self.entities}

    def arrow(self, entity: str, *, deleted: bool = False) -> pa.Table:
        """Return the entity's rows as an Arrow table."""
        path = current_state.name_of(self._known(entity))
        return Table(path, self[path]).scan(predicate=None if deleted else LIVE)

    def polars(self, entity: str, *, deleted: bool = False) -> pl.DataFrame:
        """Return the entity's rows as a Polars data frame."""
        import polars  # noqa: PLC0415 - a second of imports that only this needs

        return polars.DataFrame(self.arrow(entity, deleted=deleted))

    def duckdb(self) -> duckdb.DuckDBPyConnection:
        """Return a connection with the views of `sfcdc sql`: `account`, `account_history` and so on. With `strict`,
        those of an entity that lags are not there. Close it when you are done."""
        from sfcdc_assets.sql.cut_connection import AskedTables  # noqa: PLC0415 - only with the extra

        asked = AskedTables(self._tables)
        asked.make_all()
        return asked.connection

    def spark(self, session: SparkSession, entity: str, *, deleted: bool = False) -> DataFrame:
        """Return the entity's rows as a Spark data frame, which reads the files of the cut. Of a warehouse in an object
        store the rows go through this process."""
        from sfcdc_assets.spark.cut_rows import rows_of_files, rows_of_table  # noqa: PLC0415 - only with a session

        if not self._tables.warehouse.is_local:
            return rows_of_table(session, self.arrow(entity, deleted=deleted))
        found = self._readable(self._known(entity))
        paths = [f"{self._tables.warehouse.uri(found.name)}/{path}" for of in found.files for path in of.paths]
        return rows_of_files(session, paths, found.schema, "true" if deleted else LIVE)

    def __getitem__(self, path: str) -> DeltaTable:
        entity = path.partition("/")[2]
        if entity not in self._tables.entities:
            raise KeyError(path)
        return self._tables.cut_of(entity)[path]

    def __iter__(self) -> Iterator[str]:
        for entity in self._tables.shown:
            for layer in self._tables.layers(entity):
                yield f"{layer}/{entity}"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _known(self, entity: str) -> str:
        """Return the entity's known name. Raise `LookupError`, or `EntitiesLag` where it lags and is not to be shown,
        or has no tables yet."""
        named = {each.lower(): each for each in (*self._tables.entities, *self.lagging)}
        found = named.get(entity.lower())
        if found is None:
            raise LookupError(f"{entity} is not in the cut. Entities that are: {', '.join(self.entities) or 'none'}")
        if found not in self.entities:
            raise EntitiesLag([self.lagging[found]])
        return found

    def _readable(self, entity: str) -> ReadableTable:
        rows = self._tables.rows_of(entity)
        assert rows is not None, entity
        return rows
