"""The tables of one cut of each channel, by entity, as other engines read them. Knows no engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

import pyarrow as pa

from sfcdc_assets.changes.entity_changes import Pair, before_roll_backs
from sfcdc_assets.changes.token import Token
from sfcdc_assets.lake.delta.readable_table import ReadableTable, readable_now, readable_of_cut
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import EntitiesLag
from sfcdc_assets.lake.store.poll_notes import PollNote, read_poll_notes
from sfcdc_assets.lake.tables import current_state, earlier_formula_values, formula_values, history
from sfcdc_assets.lake.tables.consistent_cuts import Lagging
from sfcdc_assets.lake.tables.open_cut import OpenCut
from sfcdc_assets.lake.tables.organization import organization_of
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.object_shape import FIELDS, OBJECT
from sfcdc_assets.schema_evolution.table_columns import newest_describe
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.sql.changes_since import ChangesSource
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.labels import Label, label_columns
from sfcdc_assets.sql.lookup_names import LookupName, lookup_columns, name_of_record
from sfcdc_assets.sql.users import user_columns


class TablesOfCuts:
    """What the cuts have of each entity; a table is opened when it is asked for.

    `strict`: an entity that lags is refused (`EntitiesLag`), not shown as of its own position. `labels`: views have
    columns with the labels of picklist values, and with the names of record types and of what lookups point to.
    `newest`: the cuts are the newest ones, so that the views of current rows have formula fields, which are as of when
    they were read, whatever the cut; and polled entities are as of their last polls, where these have found nothing
    since the cut.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        cuts: Sequence[OpenCut],
        *,
        strict: bool = False,
        labels: bool = False,
        newest: bool = True,
    ) -> None:
        self.warehouse = warehouse
        self.strict = strict
        self.labels = labels
        self._newest = newest
        self.cuts = tuple(each.cut for each in cuts)
        self._cut_of = _newest(cuts)
        self._layers: dict[str, list[str]] = {}
        self._named: dict[str, tuple[ReadableTable, str] | None] = {}
        self._pairs: dict[str, Pair] = {}
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

    @cached_property
    def not_yet(self) -> tuple[str, ...]:
        """Entities that have tables, and that no cut has yet: the first one of their channel is still to come. None
        where the cuts are of a past time."""
        known = {*self._cut_of, *self.lagging}
        there = self.warehouse.entities(current_state.LAYER) if self._newest else ()
        return tuple(each for each in there if each not in known)

    def as_of(self, entity: str) -> datetime | None:
        """Return when the last transaction was committed that its tables have, of all that the channel had up to
        then; of a polled entity, up to when its changes had been seen."""
        cut = self._cut_of[entity].cut
        shown = cut.time_of(entity)
        note = self._polls.get(entity) if cut.channel == POLLED and entity not in self.lagging else None
        if shown is None or note is None or epoch_ms(shown) < note.same_since_ms:
            return shown
        return max(shown, utc(note.seen_until_ms))

    def polled_until(self, entity: str) -> datetime | None:
        """Return `as_of` of a polled entity that does not lag; None of others."""
        is_asked = self._cut_of[entity].cut.channel == POLLED and entity not in self.lagging
        return self.as_of(entity) if is_asked else None

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
        if current_state.LAYER not in self.layers(entity):
            return EntityTables(entity, readable_of_cut(self.cut_of(entity), entity, self.layers(entity)))
        pair = self.pair_of(entity)
        opened = {current_state.LAYER: pair.rows} | ({history.LAYER: pair.versions} if pair.versions else {})
        tables = readable_of_cut(self.cut_of(entity), entity, self.layers(entity), opened)
        rows = tables[current_state.LAYER]
        changes = ChangesSource(self._token_of(pair), before_roll_backs(self.warehouse, pair))
        described = self.described(entity)
        users = user_columns(rows.schema, described)
        labels = label_columns(rows.schema, described, users.values()) if self.labels else {}
        lookups = self._lookups(rows.schema, described, users, labels) if self.labels else {}
        users = {column: beside for column, beside in users.items() if column not in lookups}
        formulas = readable_now(self.warehouse, formula_values.name_of(entity)) if self._newest else None
        earlier = readable_now(self.warehouse, earlier_formula_values.name_of(entity)) if formulas is not None else None
        return EntityTables(entity, tables, users, labels, lookups, formulas, earlier, changes)

    def rows_of(self, entity: str) -> ReadableTable | None:
        """Return its `current_state` alone; None where it has none."""
        if current_state.LAYER not in self.layers(entity):
            return None
        return readable_of_cut(self.cut_of(entity), entity, [current_state.LAYER])[current_state.LAYER]

    def named(self, entity: str) -> tuple[ReadableTable, str] | None:
        """Return an object's rows and the expression over them for a record's name; None where the copy has no names
        of its records."""
        if entity not in self._named:
            found = self.rows_of(entity) if entity in self.shown else None
            name = name_of_record(found.schema, self._name_fields.get(entity)) if found is not None else None
            self._named[entity] = (found, name) if found is not None and name is not None else None
        return self._named[entity]

    def _lookups(
        self, schema: pa.Schema, described: ObjectDescription | None, users: dict[str, str], labels: dict[str, Label]
    ) -> dict[str, LookupName]:
        to = {each for field in described.fields for each in field.reference_to} if described else set[str]()
        named = {each for each in to if self.named(each) is not None}
        return lookup_columns(schema, described, named, users, [label.beside for label in labels.values()])

    def pair_of(self, entity: str) -> Pair:
        """Return its `current_state` and `history` at the cut, for what has changed in them. Raises as `of`."""
        if entity in self._pairs:
            return self._pairs[entity]
        cut = self.cut_of(entity)
        opened = {
            layer: Table(f"{layer}/{entity}", cut[f"{layer}/{entity}"])
            for layer in (current_state.LAYER, history.LAYER)
            if layer in self.layers(entity)
        }
        self._pairs[entity] = Pair(entity, opened[current_state.LAYER], opened.get(history.LAYER))
        return self._pairs[entity]

    def tokens(self) -> Iterator[Token]:
        """Yield the token of each entity that may be opened, at its cut."""
        for entity in self.shown:
            if current_state.LAYER in self.layers(entity):
                yield self._token_of(self.pair_of(entity))

    def _token_of(self, pair: Pair) -> Token:
        return pair.token(organization_of(self.warehouse))

    def described(self, entity: str) -> ObjectDescription | None:
        """Return the object as it was last described."""
        return newest_describe(self._schemas.of_entity(entity))

    @cached_property
    def _polls(self) -> Mapping[str, PollNote]:
        return read_poll_notes(self.warehouse) if self._newest else {}

    @cached_property
    def _name_fields(self) -> Mapping[str, str]:
        """Object -> the field that says what its records are called, of those that were described."""
        fields = Table.open(self.warehouse, FIELDS.name)
        found = fields.rows([OBJECT, "name"], "name_field and _valid_to is null") if fields is not None else ()
        return {row[OBJECT]: row["name"] for row in found}

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
