"""`schemas`: every Avro schema an event was written with, kept for ever, with what describe said at the time.

An event can only be read with its own schema (docs/salesforce-streams.md, "Change event schema"), so the schema is
fetched once, when its id is first seen, and layers can be rebuilt without the org.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.batch.header_columns import UTC_TIMESTAMP
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_changes import Remembered
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.request_failures import FailuresInARow
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms
from sfcdc_assets.salesforce.object_description import ObjectDescription

log = logging.getLogger(__name__)

NAME = "schemas"

FIRST_PAUSE_MS = 5_000
LONGEST_PAUSE_MS = 3_600_000

SCHEMAS = pa.schema(
    [
        ("schema_id", pa.string()),
        ("schema_json", pa.string()),
        ("entity_name", pa.string()),
        ("first_seen_at", UTC_TIMESTAMP),
        ("describe_json", pa.string()),
    ]
)


@lru_cache(maxsize=256)
def described_by(describe_json: str) -> ObjectDescription:
    """Return the description of an object from the form that is stored with its schemas."""
    return ObjectDescription.from_json(json.loads(describe_json))


@dataclass(frozen=True)
class EventSchema:
    """One schema: its id, Avro JSON, entity (API name), when it was first seen (ms, UTC) and the object's describe.

    `describe_json` is None where the org would not describe the object, or was not asked yet: an object that was never
    copied is described by its first snapshot.
    """

    schema_id: str
    schema_json: str
    entity_name: str
    first_seen_at: int
    describe_json: str | None

    @property
    def describe(self) -> ObjectDescription | None:
        """What describe said, if it did."""
        return described_by(self.describe_json) if self.describe_json else None


class Schemas:
    """The known schemas, read once for as long as the table is unchanged; `add` appends some."""

    def __init__(self, warehouse: Warehouse, *, without_damaged: bool = False) -> None:
        """`without_damaged`: what lies in damaged files, or in a table whose log is damaged, is not known, for who can
        ask for it again or do without it; what is added to such a table is known to this object alone. Otherwise raises
        `TableDamaged` where there is damage."""
        self._warehouse = warehouse
        self._without_damaged = without_damaged
        self._not_written = dict[str, int]()
        read = _readable_schemas if without_damaged else _schemas
        self._known: _Known = _READ.of(warehouse, [without_damaged], lambda _: _Known().with_(read(warehouse)))[
            without_damaged
        ]

    @cached_property
    def _table(self) -> Table | None:
        return _readable_table(self._warehouse) if self._without_damaged else Table.open(self._warehouse, NAME)

    def get(self, schema_id: str) -> EventSchema | None:
        """Return the schema, or None when its id has not been seen."""
        return self._known.by_id.get(schema_id)

    def of_entity(self, entity: str) -> tuple[EventSchema, ...]:
        """All schemas of an entity; the one that was last seen again, with the freshest describe, is the last."""
        return self._known.of_entity.get(entity, ())

    def add(
        self,
        *schemas: EventSchema,
        described: Mapping[str, int] = MappingProxyType({}),
        in_vain: Iterable[str] = (),
        now_ms: int = 0,
    ) -> None:
        """Keep schemas, or known ones with a newer describe, and note which objects were described when (entity ->
        epoch ms, UTC), whether or not that was news, and what was asked for `in_vain` just now: in one commit. Two
        processes may add the same: readers take either. Raises `ConcurrentCommit` when another process notes of the
        same objects."""
        noted = {_described(entity): at_ms for entity, at_ms in described.items()}
        noted |= {_waits(each): self._in_vain(each).again(now_ms).number for each in in_vain}
        answered = [*map(schema_of_id, (each.schema_id for each in schemas)), *map(describe_of, described)]
        noted |= {_waits(each): 0 for each in answered if self._in_vain(each).tries and _waits(each) not in noted}
        if not schemas and not noted:
            return
        rows = [{**vars(schema), "first_seen_at": schema.first_seen_at * 1000} for schema in schemas]
        try:
            table = Table.open_or_create(self._warehouse, NAME, SCHEMAS)
            table.append(pa.Table.from_pylist(rows, schema=SCHEMAS), noted, {})
        except TableDamaged as damaged:
            if not self._without_damaged:
                raise
            log.warning("Schemas are known to this process alone: %s", damaged)
            self._not_written |= noted
        self.__dict__.pop("_table", None)
        self._known = self._known.with_(schemas)

    def is_due(self, subject: str, now_ms: int) -> bool:
        """Return whether something may be asked of the org, or it was asked for in vain too short a time ago: the
        pauses grow from 5 seconds to an hour, for each subject by itself and over any number of processes."""
        return now_ms >= self._in_vain(subject).until_ms(FIRST_PAUSE_MS, LONGEST_PAUSE_MS)

    def _in_vain(self, subject: str) -> FailuresInARow:
        noted = self._table.transaction_version(_waits(subject)) if self._table else None
        return FailuresInARow.of(noted or self._not_written.get(_waits(subject), 0))

    def described_at(self, entity: str) -> int:
        """Return when the entity was last described, whether or not it had changed (epoch ms, UTC); 0 if it never
        was."""
        return (self._table.transaction_version(_described(entity)) or 0) if self._table else 0


@dataclass(frozen=True)
class _Known:
    """Schemas by their ids and, in the order in which they were last seen, by entity. It is shared, and never changed:
    hundreds of objects are polled one after another, each with its own `Schemas`."""

    by_id: Mapping[str, EventSchema] = field(default_factory=dict)
    of_entity: Mapping[str, tuple[EventSchema, ...]] = field(default_factory=dict)

    def with_(self, schemas: Iterable[EventSchema]) -> _Known:
        """Return these and more, each the newest of its id. One that was landed before its object was described does
        not take back what another process had from the org: without it, each of the entity's columns would look
        retyped."""
        by_id, of_entity = dict(self.by_id), dict(self.of_entity)
        for each in schemas:
            known = by_id.get(each.schema_id)
            schema = each if each.describe_json or known is None else replace(each, describe_json=known.describe_json)
            by_id[schema.schema_id] = schema
            others = (one for one in of_entity.get(schema.entity_name, ()) if one.schema_id != schema.schema_id)
            of_entity[schema.entity_name] = (*others, schema)
        return _Known(by_id, of_entity)


@dataclass(frozen=True)
class _Read:
    """Files of the table, and the schemas in them."""

    paths: frozenset[str]
    schemas: tuple[EventSchema, ...]


FEW_FILES = 16
"""So many new files are read one after another; with more, or where some are gone, the table is read again."""
KEPT_WAREHOUSES = 10
_READ = Remembered[bool, _Known](2 * KEPT_WAREHOUSES)
_FILES: dict[Warehouse, _Read] = {}


def _schemas(warehouse: Warehouse) -> tuple[EventSchema, ...]:
    """All rows, the one last seen at the end. The table gets a file with each object that is new or has changed, so of
    a table that was read before only the files that came since are read."""
    table = Table.open(warehouse, NAME)
    if table is None:
        return ()
    paths = frozenset(table.file_statistics()["path"].to_list())
    last = _FILES.get(warehouse, _Read(frozenset(), ()))
    new = sorted(paths - last.paths)
    if last.paths <= paths and len(new) <= FEW_FILES:
        added = pl.DataFrame(table.read_files(new, SCHEMAS.names)).to_dicts() if new else []
        found = (*last.schemas, *map(_schema, added))
    else:
        found = tuple(map(_schema, table.rows(SCHEMAS.names)))
    if len(_FILES) >= KEPT_WAREHOUSES:
        _FILES.clear()
    _FILES[warehouse] = _Read(paths, tuple(sorted(found, key=attrgetter("first_seen_at"))))
    return _FILES[warehouse].schemas


def _readable_schemas(warehouse: Warehouse) -> tuple[EventSchema, ...]:
    try:
        return _schemas(warehouse)
    except TableDamaged as damaged:
        log.warning("Schemas that cannot be read are asked for again where events need them: %s", damaged)
    table, found = _readable_table(warehouse), list[EventSchema]()
    if table is None:
        return ()
    for file in table.files():
        with suppress(TableDamaged):
            rows = pl.DataFrame(table.read_files([file.path], SCHEMAS.names)).to_dicts()
            found.extend(map(_schema, rows))
    return tuple(sorted(found, key=attrgetter("first_seen_at")))


def _readable_table(warehouse: Warehouse) -> Table | None:
    """Return the table; None too where its log is damaged."""
    try:
        return Table.open(warehouse, NAME)
    except TableDamaged:
        return None


def _schema(row: Mapping[str, Any]) -> EventSchema:
    return EventSchema(**{**row, "first_seen_at": epoch_ms(row["first_seen_at"])})


def schema_of_id(schema_id: str) -> str:
    """Return the lookup of a schema, as a subject of pauses."""
    return f"schema:{schema_id}"


def describe_of(entity: str) -> str:
    """Return the describe of an object, as a subject of pauses."""
    return f"describe:{entity}"


def _waits(subject: str) -> str:
    return f"in vain:{subject}"


def _described(entity: str) -> str:
    return f"described:{entity}"
