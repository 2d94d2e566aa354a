"""What the views are called, what they hold and what is said of their columns: for catalogues of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.column_descriptions import column_description
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import sql_type
from sfcdc_assets.timeline.version_columns import END_COLUMNS, OF_THE_ROW


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
    lag = tables.lagging.get(of.entity)
    lags = f" {lag}." if lag is not None else ""
    schema = of.schema(current_state.LAYER)
    users = [
        DescribedColumn(beside, "VARCHAR", f"Name of the user in {column}, as it is now.")
        for column, beside in of.users.items()
    ]
    described_labels = [
        DescribedColumn(each.beside, "VARCHAR", each.description(column)) for column, each in of.labels.items()
    ]

    def columns(fields: list[pa.Field]) -> tuple[DescribedColumn, ...]:
        found = (DescribedColumn(each.name, sql_type(each.type), column_description(each, labels)) for each in fields)
        return (*found, *users, *described_labels)

    yield DescribedView(
        of.view_name,
        f"{label}: the live records of {of.entity}, one row each, with their current values.{lags}",
        (*columns(list(schema)), *_formulas(of, described)),
        has_unique_ids=True,
    )
    versions = [each for each in schema if each.name != OF_THE_ROW[1]]
    yield DescribedView(
        f"{of.view_name}_history",
        f"{label}: every version of the records of {of.entity}, deleted ones too; _valid_to is null for the current "
        f"version.{lags}",
        columns([*versions, *END_COLUMNS]),
        has_unique_ids=False,
    )


def _formulas(of: EntityTables, described: ObjectDescription | None) -> Iterator[DescribedColumn]:
    for each in of.formula_columns:
        assert of.formulas is not None
        words = described.words_for(each) if described is not None else None
        said = f"{words or each} (formula, as of {AS_OF})"
        description = "When the formula fields of the record were read." if each == AS_OF else said
        yield DescribedColumn(each, sql_type(of.formulas.schema.field(each).type), description)


def sources_yml(views: Iterable[DescribedView], *, source: str, schema: str, database: str | None = None) -> str:
    """YAML. Texts are written as JSON writes them, which YAML reads as they are."""
    return "\n".join(_lines(views, source, schema, database)) + "\n"


def _lines(views: Iterable[DescribedView], source: str, schema: str, database: str | None) -> Iterator[str]:
    yield "version: 2"
    yield "sources:"
    yield f"  - name: {_text(source)}"
    yield f"    description: {_text('A Salesforce org, copied from its change events by sfcdc_assets.')}"
    if database:
        yield f"    database: {_text(database)}"
    yield f"    schema: {_text(schema)}"
    yield "    tables:"
    for view in views:
        yield f"      - name: {_text(view.name)}"
        yield f"        description: {_text(view.description)}"
        yield "        columns:"
        for column in view.columns:
            yield f"          - name: {_text(column.name)}"
            yield f"            data_type: {_text(column.type)}"
            if column.description:
                yield f"            description: {_text(column.description)}"
            if column.name == "Id":
                yield f"            data_tests: [{'unique, ' if view.has_unique_ids else ''}not_null]"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
