"""The columns of an entity's tables: what its newest event schema carries, and every column a table already has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, ColumnType, columns, columns_of_arrow_schema
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.schemas import EventSchema, Schemas


class SchemaMissing(SfcdcError):
    """No Avro schema of the entity is known, so its columns are not either."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no change event schema is known. Check that Change Data Capture is switched on for {entity} "
            "(Setup, Change Data Capture) and that the integration user has View All on it, then take its snapshot."
        )


def entity_columns(schemas: Schemas, entity: str, table: pa.Schema | None) -> tuple[Column, ...]:
    """The readable fields that any known schema carries, in describe's order, then the table's retired columns.

    Several schemas are in use at a time (events wait for up to three days), so none of them alone tells the columns;
    the freshest describe tells which fields there are now, and their types. Raises `SchemaMissing`.
    """
    known = schemas.of_entity(entity)
    if not known:
        raise SchemaMissing(entity)
    describe = _newest_describe(known)
    found = {column.name: column for schema in known for column in columns(json.loads(schema.schema_json), describe)}
    if describe is not None:
        order = {field["name"]: number for number, field in enumerate(describe["fields"])}
        order["Id"] = -1
        found = dict(sorted(found.items(), key=lambda item: order[item[0]]))
    present = {column.name: column for column in (columns_of_arrow_schema(table) if table is not None else ())}
    # A text that was ever large has values in `text_fields`.
    large = {column.name for column in present.values() if column.large_text}
    wanted = [
        replace(column, large_text=True) if column.name in large and column.type is ColumnType.STRING else column
        for column in found.values()
    ]
    return (*wanted, *(column for name, column in present.items() if name not in found))


def retired_columns(schemas: Schemas, entity: str, table: Sequence[Column]) -> frozenset[str]:
    """Names of table columns that the object, as it was last described, no longer has (or hides from the user)."""
    describe = _newest_describe(schemas.of_entity(entity))
    if describe is None:
        return frozenset()
    fields = {field["name"] for field in describe["fields"]}
    return frozenset(column.name for column in table if column.name not in fields and column.name != "Id")


def _newest_describe(known: Sequence[EventSchema]) -> Mapping[str, Any] | None:
    return next((schema.describe for schema in reversed(known) if schema.describe_json), None)
