"""The tables of one cut of each channel, by entity, as other engines read them. Knows no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

from sfcdc_assets.lake.delta.readable_table import ReadableTable, readable_now, readable_of_cut
from sfcdc_assets.lake.errors import EntitiesLag
from sfcdc_assets.lake.tables import current_state, formula_values
from sfcdc_assets.lake.tables.consistent_cuts import Lagging
from sfcdc_assets.lake.tables.open_cut import OpenCut
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.table_columns import newest_describe
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.labels import label_columns
from sfcdc_assets.sql.users import user_columns


class TablesOfCuts:
    """What the cuts have of each entity; a table is opened when it is asked for.

    `strict`: an entity that lags is refused (`EntitiesLag`), not shown as of its own position. `labels`: views have
    columns with the labels of picklist values and the names of record types. `formulas`: those of
    current rows have formula fields, which are as of when they were read, whatever the cut.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        cuts: Sequence[OpenCut],
        *,
        strict: bool = False,
        labels: bool = False,
        formulas: bool = True,
    ) -> None:
        self.warehouse = warehouse
        self.strict = strict
        self.labels = labels
        self.formulas = formulas
        self.cuts = tuple(each.cut for each in cuts)
        self._cut_of = _newest(cuts)
        self._layers: dict[str, list[str]] = {}
        for cut in cuts:
            for layer, _, entity in (path.partition("/") for path in cut):
                if self._cut_of[entity] is cut:
                    self._layers.setdefault(entity, []).append(layer)

    @property
    def entities(self) -> tuple[str, ...]:
        """Those that have tables in the cuts."""
        return tuple(sorted(self._cut_of))

    @property
    def shown(self) -> tuple[str, ...]:
        """Those of them that may be opened."""
        return tuple(each for each in self.entities if not (self.strict and each in self.lagging))

    @cached_property
    def lagging(self) -> Mapping[str, Lagging]:
        """Entity -> how far it is, of those that do not stand at their cut; also of those that have no tables yet."""
        found = {each.entity: each for cut in self.cuts for each in cut.lagging if each.entity not in self._cut_of}
        for entity, opened in self._cut_of.items():
            if (lag := opened.cut.lag_of(entity)) is not None:
                found[entity] = lag
        return dict(sorted(found.items()))

    def as_of(self, entity: str) -> datetime | None:
        """Return when the last transaction was committed that its tables have, of all that the channel had up to
        then."""
        lag = self.lagging.get(entity)
        return lag.as_of if lag is not None else self._cut_of[entity].cut.commit_timestamp

    def cut_of(self, entity: str) -> OpenCut:
        """Return the cut whose versions of its tables count. Raises `EntitiesLag` where only those that do not lag are
        wanted."""
        if self.strict and entity in self.lagging:
            raise EntitiesLag([self.lagging[entity]])
        return self._cut_of[entity]

    def layers(self, entity: str) -> tuple[str, ...]:
        """Return the layers in which it has a table."""
        return tuple(self._layers.get(entity, ()))

    def of(self, entity: str) -> EntityTables:
        """Return the entity's tables. Raises `CutGone`, `UnreadableTable`, `EntitiesLag`."""
        tables = readable_of_cut(self.cut_of(entity), entity, self.layers(entity))
        rows = tables.get(current_state.LAYER)
        if rows is None:
            return EntityTables(entity, tables)
        described = self.described(entity)
        users = user_columns(rows.schema, described)
        labels = label_columns(rows.schema, described, users.values()) if self.labels else {}
        formulas = readable_now(self.warehouse, formula_values.name_of(entity)) if self.formulas else None
        return EntityTables(entity, tables, users, labels, formulas)

    def rows_of(self, entity: str) -> ReadableTable | None:
        """Return its `current_state` alone; None where it has none."""
        if current_state.LAYER not in self.layers(entity):
            return None
        return readable_of_cut(self.cut_of(entity), entity, [current_state.LAYER])[current_state.LAYER]

    def described(self, entity: str) -> ObjectDescription | None:
        """Return the object as it was last described."""
        return newest_describe(self._schemas.of_entity(entity))

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self.warehouse)


def _newest(cuts: Sequence[OpenCut]) -> dict[str, OpenCut]:
    """Entity -> the cut that counts. An entity is in one channel's cuts; where it got another channel, the last cut of
    the former may still have it, with older versions."""
    found: dict[str, OpenCut] = {}
    for cut in cuts:
        for entity in {path.partition("/")[2] for path in cut}:
            if entity not in found or _place(found[entity], entity) < _place(cut, entity):
                found[entity] = cut
    return found


def _place(cut: OpenCut, entity: str) -> tuple[int, datetime]:
    reached = cut.cut.applied_at or datetime.min.replace(tzinfo=UTC)
    return cut.cut.tables.get(current_state.name_of(entity), -1), reached
