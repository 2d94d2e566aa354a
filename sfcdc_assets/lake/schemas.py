"""`schemas`: every Avro schema an event was written with, kept for ever, with what describe said at the time.

An event can only be read with its own schema (docs/salesforce-streams.md, "Change event schema"), so the schema is
fetched once, when its id is first seen, and layers can be rebuilt without the org.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.raw_event_rows import UTC_TIMESTAMP
from sfcdc_assets.lake.remembered import Remembered
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_description import ObjectDescription

NAME = "schemas"

SCHEMAS = pa.schema(
    [
        ("schema_id", pa.string()),
        ("schema_json", pa.string()),
        ("entity_name", pa.string()),
        ("first_seen_at", UTC_TIMESTAMP),
        ("describe_json", pa.string()),
    ]
)


@dataclass(frozen=True)
class EventSchema:
    """One schema: its id, Avro JSON, entity (API name), when it was first seen (ms, UTC) and the object's describe.

    `describe_json` is None where the org would not describe the object.
    """

    schema_id: str
    schema_json: str
    entity_name: str
    first_seen_at: int
    describe_json: str | None

    @property
    def describe(self) -> ObjectDescription | None:
        """What describe said, if it did."""
        return ObjectDescription.from_json(json.loads(self.describe_json)) if self.describe_json else None


class Schemas:
    """The known schemas, read once for as long as the table is unchanged; `add` appends one."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._known: dict[str, EventSchema] = {}
        for schema in _READ.of(warehouse, [None], lambda _: _schemas(warehouse))[None]:
            self._remember(schema)

    @cached_property
    def _table(self) -> Table | None:
        return Table.open(self._warehouse, NAME)

    def get(self, schema_id: str) -> EventSchema | None:
        """The schema, or None when its id has not been seen."""
        return self._known.get(schema_id)

    def of_entity(self, entity: str) -> tuple[EventSchema, ...]:
        """All schemas of an entity; the one that was last seen again, with the freshest describe, is the last."""
        return tuple(schema for schema in self._known.values() if schema.entity_name == entity)

    def add(self, schema: EventSchema) -> None:
        """Keep a schema, or a known one with a newer describe. Two processes may add the same: readers take either."""
        row = {**vars(schema), "first_seen_at": schema.first_seen_at * 1000}
        table = Table.open_or_create(self._warehouse, NAME, SCHEMAS)
        table.append(pa.Table.from_pylist([row], schema=SCHEMAS), {}, {})
        self._remember(schema)

    def described_at(self, entity: str) -> int:
        """When the entity was last described, whether or not it had changed (epoch ms, UTC); 0 if it never was."""
        return (self._table.transaction_version(_described(entity)) or 0) if self._table else 0

    def note_described(self, entity: str, now_ms: int) -> None:
        """Note that the org was asked and nothing was new."""
        table = Table.open_or_create(self._warehouse, NAME, SCHEMAS)
        table.append(SCHEMAS.empty_table(), {_described(entity): now_ms}, {})

    def _remember(self, schema: EventSchema) -> None:
        self._known.pop(schema.schema_id, None)
        self._known[schema.schema_id] = schema


_READ = Remembered[None, tuple[EventSchema, ...]](most=10)


def _schemas(warehouse: Warehouse) -> tuple[EventSchema, ...]:
    """All rows, the one last seen at the end."""
    table = Table.open(warehouse, NAME)
    rows = table.rows() if table else []
    return tuple(_schema(row) for row in sorted(rows, key=itemgetter("first_seen_at")))


def _schema(row: Mapping[str, Any]) -> EventSchema:
    return EventSchema(**{**row, "first_seen_at": int(row["first_seen_at"].timestamp() * 1000)})


def _described(entity: str) -> str:
    return f"described:{entity}"
