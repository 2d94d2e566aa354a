"""What the views are called, what they hold and what is said of their columns: for catalogues of other tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.lake import current_state
from sfcdc_assets.pipeline.schemas.column_descriptions import column_description
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import sql_type
from sfcdc_assets.state.version_columns import END_COLUMNS, OF_THE_ROW


@dataclass(frozen=True)
class DescribedColumn:
    """A column of a view."""

    name: str
    type: str
    description: str | None


@dataclass(frozen=True)
class DescribedView:
    """A view, and the columns that say which row is which."""

    name: str
    description: str
    columns: tuple[DescribedColumn, ...]
    has_unique_ids: bool


def described_views(tables: TablesOfCuts) -> Iterator[DescribedView]:
    """`account` and `account_history` of each entity that has rows."""
    for entity in tables.entities:
        if current_state.LAYER in tables.layers(entity):
            yield from _of_entity(tables, tables.of(entity))


def _of_entity(tables: TablesOfCuts, of: EntityTables) -> Iterator[DescribedView]:
    described = tables.described(of.entity)
    labels = {field.name: field.label for field in described.fields} if described else {}
    label = described.label if described else of.entity
    schema = of.schema(current_state.LAYER)
    users = [
        DescribedColumn(beside, "VARCHAR", f"Name of the user in {column}, as it is now.")
        for column, beside in of.users.items()
    ]

    def columns(fields: list[pa.Field]) -> tuple[DescribedColumn, ...]:
        found = (DescribedColumn(each.name, sql_type(each.type), column_description(each, labels)) for each in fields)
        return (*found, *users)

    yield DescribedView(
        of.view_name,
        f"{label}: the live records of {of.entity}, one row each, with their current values.",
        columns(list(schema)),
        has_unique_ids=True,
    )
    versions = [each for each in schema if each.name != OF_THE_ROW[1]]
    yield DescribedView(
        f"{of.view_name}_history",
        f"{label}: every version of the records of {of.entity}, deleted ones too; _valid_to is null for the current "
        "version.",
        columns([*versions, *END_COLUMNS]),
        has_unique_ids=False,
    )
