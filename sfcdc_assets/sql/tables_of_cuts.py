"""The tables of one cut of each channel, by entity, as other engines read them. Knows no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from sfcdc_assets.lake import current_state
from sfcdc_assets.lake.open_cut import OpenCut
from sfcdc_assets.lake.readable_table import readable_of_cut
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
        self._layers = _newest(cuts)

    @property
    def entities(self) -> tuple[str, ...]:
        """Those that have tables in the cuts."""
        return tuple(sorted(self._layers))

    def layers(self, entity: str) -> Mapping[str, OpenCut]:
        """Layer -> the cut that names its table of the entity."""
        return self._layers.get(entity, {})

    def of(self, entity: str) -> EntityTables:
        """The entity's tables. Raises `CutGone`, `UnreadableTable`."""
        tables = {layer: readable_of_cut(cut, f"{layer}/{entity}") for layer, cut in self.layers(entity).items()}
        rows = tables.get(current_state.LAYER)
        return EntityTables(entity, tables, user_columns(rows.schema, self.described(entity)) if rows else {})

    def described(self, entity: str) -> ObjectDescription | None:
        """The object as it was last described."""
        return newest_describe(self._schemas.of_entity(entity))

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self.warehouse)


def _newest(cuts: Sequence[OpenCut]) -> dict[str, dict[str, OpenCut]]:
    """Entity -> layer -> the cut. An entity is in one channel's cuts; where it got another channel, the last cut of the
    former may still have it, with older versions."""
    found: dict[str, dict[str, OpenCut]] = {}
    for cut in cuts:
        of_cut: dict[str, dict[str, OpenCut]] = {}
        for path in cut:
            layer, _, entity = path.partition("/")
            of_cut.setdefault(entity, {})[layer] = cut
        for entity, layers in of_cut.items():
            if entity not in found or _rows_version(found[entity], entity) < _rows_version(layers, entity):
                found[entity] = layers
    return found


def _rows_version(layers: Mapping[str, OpenCut], entity: str) -> int:
    return max(cut.cut.tables.get(current_state.name_of(entity), -1) for cut in layers.values())
