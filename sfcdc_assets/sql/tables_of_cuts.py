"""The tables of one cut of each channel, by entity, as other engines read them. Knows no engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sfcdc_assets.lake import current_state
from sfcdc_assets.lake.open_cut import OpenCut
from sfcdc_assets.lake.readable_table import ReadableTable, readable_of_cut
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.schemas.table_columns import newest_describe
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.users import user_columns


class TablesOfCuts:
    """What the cuts have of each entity; a table is opened when it is asked for."""

    def __init__(self, warehouse: Warehouse, cuts: Sequence[OpenCut]) -> None:
        self.warehouse = warehouse
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

    def layers(self, entity: str) -> tuple[str, ...]:
        """The layers in which it has a table."""
        return tuple(self._layers.get(entity, ()))

    def of(self, entity: str) -> EntityTables:
        """The entity's tables. Raises `CutGone`, `UnreadableTable`."""
        tables = readable_of_cut(self._cut_of[entity], entity, self.layers(entity))
        rows = tables.get(current_state.LAYER)
        return EntityTables(entity, tables, user_columns(rows.schema, self.described(entity)) if rows else {})

    def rows_of(self, entity: str) -> ReadableTable | None:
        """Its `current_state` alone; None where it has none."""
        if current_state.LAYER not in self.layers(entity):
            return None
        return readable_of_cut(self._cut_of[entity], entity, [current_state.LAYER])[current_state.LAYER]

    def described(self, entity: str) -> ObjectDescription | None:
        """The object as it was last described."""
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
            if entity not in found or _rows_version(found[entity], entity) < _rows_version(cut, entity):
                found[entity] = cut
    return found


def _rows_version(cut: OpenCut, entity: str) -> int:
    return cut.cut.tables.get(current_state.name_of(entity), -1)
