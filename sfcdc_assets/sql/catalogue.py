"""What the views are called, what they hold and what is said of their columns: for catalogues of other tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.formulas.formula_columns import AS_OF
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.column_descriptions import column_description
from sfcdc_assets.sql.entity_views import EntityTables
from sfcdc_assets.sql.labels import Label
from sfcdc_assets.sql.lookup_names import LookupName
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
    """A view, and the columns that say which row is which. `never_null`: columns that every row has."""

    name: str
    description: str
    columns: tuple[DescribedColumn, ...]
    has_unique_ids: bool
    never_null: tuple[str, ...] = ("Id",)


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
    beside: dict[str, Label | LookupName] = {**of.labels, **of.lookups}
    described_labels = [
        DescribedColumn(each.beside, "VARCHAR", each.description(column)) for column, each in beside.items()
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
    versions = [each for each in schema if each.name not in OF_THE_ROW[1:]]
    yield DescribedView(
        f"{of.view_name}_history",
        f"{label}: every version of the records of {of.entity}, deleted ones too; _valid_to is null for the current "
        f"version.{lags}",
        columns([*versions, *END_COLUMNS]),
        has_unique_ids=False,
        never_null=("Id", "_valid_from"),
    )


def _formulas(of: EntityTables, described: ObjectDescription | None) -> Iterator[DescribedColumn]:
    for each in of.formula_columns:
        assert of.formulas is not None
        words = described.words_for(each) if described is not None else None
        said = f"{words or each} (formula, as of {AS_OF})"
        description = "When the formula fields of the record were read." if each == AS_OF else said
        yield DescribedColumn(each, sql_type(of.formulas.schema.field(each).type), description)


@dataclass(frozen=True)
class DbtSource:
    """How dbt, and dagster-dbt, find the views. `asset_prefix`: how the keys of the entities' assets in Dagster begin;
    `stale_hours`: how long no change may have come before dbt warns."""

    name: str
    schema: str
    database: str | None = None
    asset_prefix: tuple[str, ...] = ("salesforce",)
    stale_hours: int = 24


LOADED_AT = "_commit_timestamp"
"""When the org committed what a row shows."""


def sources_yml(views: Iterable[DescribedView], source: DbtSource) -> str:
    """YAML. Texts are written as JSON writes them, which YAML reads as they are. dbt takes descriptions for templates:
    a label of the org could keep its project from being read, or show its environment, so each is one that shows it."""
    return "\n".join(_lines(views, source)) + "\n"


def _lines(views: Iterable[DescribedView], source: DbtSource) -> Iterator[str]:
    yield "version: 2"
    yield "sources:"
    yield f"  - name: {_text(source.name)}"
    yield f"    description: {_text('A Salesforce org, copied from its change events by sfcdc_assets.')}"
    if source.database:
        yield f"    database: {_text(source.database)}"
    yield f"    schema: {_text(source.schema)}"
    yield "    config:"
    yield f"      loaded_at_field: {_text(LOADED_AT)}"
    yield f"      freshness: {{warn_after: {{count: {source.stale_hours}, period: hour}}}}"
    yield "    tables:"
    for view in views:
        key = json.dumps([*source.asset_prefix, view.name], ensure_ascii=False)
        yield f"      - name: {_text(view.name)}"
        yield f"        description: {_template(view.description)}"
        yield f"        config: {{meta: {{dagster: {{asset_key: {key}}}}}}}"
        yield "        columns:"
        for column in view.columns:
            yield f"          - name: {_text(column.name)}"
            yield f"            data_type: {_text(column.type)}"
            yield "            quote: true"
            if column.description:
                yield f"            description: {_template(column.description)}"
            tests = ["unique"] if column.name == "Id" and view.has_unique_ids else []
            tests += ["not_null"] if column.name in view.never_null else []
            if tests:
                yield f"            data_tests: [{', '.join(tests)}]"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_COMMANDS = re.compile(r"\{(?=[{%#])")


def _template(text: str) -> str:
    """Return the text as a template that shows it and nothing else."""
    return _text(_COMMANDS.sub("{{ '{' }}", text))
