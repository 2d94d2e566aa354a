"""All tables at one consistent cut, for notebooks and programs: they show the org after one transaction, over all
objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sfcdc_assets.lake.delta.readable_table import ReadableTable
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import CutGone, EntitiesLag, NotYetInCut, TableDamaged, UnknownInCut
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.open_cut import cuts_at
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.setting_values import nearest
from sfcdc_assets.sql.cut_summary import ENTITIES_SHOWN, CutSummary, ShownEntity
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sfcdc_assets.changes.entity_changes import Since
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
    return ConsistentCut(TablesOfCuts(opened, cuts_at(opened, at, channel), strict=strict, newest=at is None))


def changes_since(
    warehouse: str,
    entity: str,
    since: Since = None,
    versions: bool = False,  # noqa: FBT001, FBT002 - a promise to other programs
) -> tuple[pa.Table, str]:
    """Return the records of an entity that have changed, up to the newest consistent cut, and the token to ask with
    next time.

    `since`: the token of the last call; or a position of the channel that feeds the entity, or a time (with zone), to
    begin there; None gives every living record as an insert. One row a record, from what it was to what it is; with
    `versions` one for each version on the way. Columns: `Id`, `_op` (`insert`, `update`, `delete`, `undelete`), the
    fields after, `_before` (those that changed, as they were; null for an insert), `_changed_fields`,
    `_deleted_reason`, `_certain`, `_commit_user`, `_commit_timestamp`, `_position`.

    Two calls one after another give what one over both would. Raises `ChangesExpired` where the consumer has to begin
    again, `NoCut` and `LookupError`.
    """
    return open_cut(warehouse).changes_since(entity, since, versions=versions)


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
        """Entity -> when the last transaction was committed that it shows; None before the first event. Of a polled
        entity: up to when its changes had been seen, by the org's clock."""
        return {entity: self._tables.as_of(entity) for entity in self.entities}

    def arrow(self, entity: str, *, deleted: bool = False) -> pa.Table:
        """Return the entity's rows as an Arrow table."""
        known = self._known(entity)
        path = current_state.name_of(known)
        with self._tables.cut_of(known).reading():
            return Table(path, self[path]).scan(predicate=None if deleted else LIVE)

    def polars(self, entity: str, *, deleted: bool = False) -> pl.DataFrame:
        """Return the entity's rows as a Polars data frame."""
        import polars  # noqa: PLC0415 - a second of imports that only this needs

        return polars.DataFrame(self.arrow(entity, deleted=deleted))

    def pandas(self, entity: str, *, deleted: bool = False) -> pd.DataFrame:
        """Return the entity's rows as a pandas data frame."""
        return self.arrow(entity, deleted=deleted).to_pandas()

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

    def changes_since(self, entity: str, since: Since = None, *, versions: bool = False) -> tuple[pa.Table, str]:
        """Return what has changed in the entity up to the cut, as the function of this name: of several entities, at
        one moment."""
        from sfcdc_assets.changes.entity_changes import EntityChanges  # noqa: PLC0415 - as polars above

        known = self._known(entity)
        with self._tables.cut_of(known).reading():
            return EntityChanges(self._tables.warehouse, self._tables.pair_of(known)).since(since, versions=versions)

    def __getitem__(self, path: str) -> DeltaTable:
        entity = path.partition("/")[2]
        if path not in self:
            near = nearest(path, self)
            raise KeyError(f"{path} is not in the cut." + (f" Did you mean {near}?" if near else ""))
        return self._tables.cut_of(entity)[path]

    def __contains__(self, path: object) -> bool:
        """Return whether the cut has a table of this path."""
        layer, _, entity = str(path).partition("/")
        return entity in self._tables.entities and layer in self._tables.layers(entity)

    def __iter__(self) -> Iterator[str]:
        for entity in self._tables.shown:
            for layer in self._tables.layers(entity):
                yield f"{layer}/{entity}"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return self._summary().html()

    def _summary(self) -> CutSummary:
        entities = sorted(self.entities, key=lambda each: (each not in self.lagging, each))
        shown = [ShownEntity(each, self._living(each), self._tables.as_of(each)) for each in entities[:ENTITIES_SHOWN]]
        return CutSummary(self.cuts, shown, self.lagging, len(entities))

    def _living(self, entity: str) -> int | None:
        """Return its live rows, without reading them; None where they are not known or cannot be: what shows a cut
        must not fail."""
        path = current_state.name_of(entity)
        try:
            counts = current_state.noted_counts(Table(path, self[path]))
        except (CutGone, EntitiesLag, TableDamaged, OSError):
            return None
        return counts.rows - counts.deleted if counts is not None else None

    def _known(self, entity: str) -> str:
        """Return the entity's known name. Raise `UnknownInCut` or `NotYetInCut`, each a `LookupError`, or `EntitiesLag`
        where it lags and is not to be shown, or has no tables yet."""
        named = {each.lower(): each for each in (*self._tables.entities, *self.lagging)}
        found = named.get(entity.lower())
        if found is None:
            waiting = [each for each in self._tables.not_yet if each.lower() == entity.lower()]
            if waiting:
                raise NotYetInCut(waiting)
            raise UnknownInCut(entity, tuple(named.values()), nearest(entity, named.values()))
        if found not in self.entities:
            raise EntitiesLag([self.lagging[found]])
        return found

    def _readable(self, entity: str) -> ReadableTable:
        rows = self._tables.rows_of(entity)
        assert rows is not None, entity
        return rows
