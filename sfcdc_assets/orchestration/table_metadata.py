"""What a materialization reports about its table: Dagster's own keys where it has them, ours in Salesforce's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from sfcdc_assets.runtime.foreign_text import markdown_text, shortened
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.column_descriptions import column_description

Metadata = dict[str, Any]

SCHEMA, LINEAGE = "dagster/column_schema", "dagster/column_lineage"
COLUMNS = "columns"
"""The entry with the columns of a partition's own table."""
SAMPLE = "sample"
"""The entry with rows of a table, where SFCDC_SAMPLE_ROWS asks for some."""
WIDTH = 40
"""Characters of a value that a sample shows."""
_EXACT_IN_A_BROWSER = 2**53
_TAGS = {"salesforce.type": "salesforce_type", "salesforce.large_text": "large_text"}


def table_metadata(
    uri: str,
    name: str,
    schema: pa.Schema,
    lineage: dg.TableColumnLineage | None = None,
    described: ObjectDescription | None = None,
) -> Metadata:
    """Place, columns, and where they come from, of the one table of an asset, under the keys that Dagster's UI knows
    (docs/dagster-notes.md, "Metadata keys").

    The UI shows entries in their order: put what a batch did before them.
    """
    metadata: Metadata = {
        "dagster/table_name": name,
        "dagster/storage_kind": "deltalake",
        "dagster/uri": uri,
        SCHEMA: columns_of(schema, described),
    }
    if lineage is not None:
        metadata[LINEAGE] = lineage
    return metadata


def partition_metadata(
    uri: str,
    name: str,
    rows: int,
    schema: pa.Schema,
    sample: pa.Table | None = None,
    lineage: dg.TableColumnLineage | None = None,
    described: ObjectDescription | None = None,
) -> Metadata:
    """Place, columns and rows of a partition that is a table of its own, and a sample of its rows.

    What is this table's alone has other keys: those of the UI are shown as the asset's, whichever partition came last.
    `lineage`: of the columns that all partitions have.
    """
    metadata: Metadata = {
        "table": name,
        "dagster/storage_kind": "deltalake",
        "location": uri,
        COLUMNS: columns_of(schema, described),
        "dagster/partition_row_count": rows,
    }
    if lineage is not None:
        metadata[LINEAGE] = lineage
    return metadata | sample_metadata(sample)


def columns_of(schema: pa.Schema, described: ObjectDescription | None = None) -> dg.TableSchema:
    """Columns as Dagster shows them, each with what is known of it."""
    return dg.TableSchema(columns=[_column(field, described) for field in schema])


def sample_metadata(sample: pa.Table | None) -> Metadata:
    """Rows of a table; nothing of none."""
    if sample is None or not sample.num_rows:
        return {}
    names = sample.column_names
    return {SAMPLE: rows_value(names, ([_cut(row[name]) for name in names] for row in sample.to_pylist()))}


def timestamp(ms: int) -> dg.TimestampMetadataValue:
    """Milliseconds of the epoch (UTC) as Dagster shows a time."""
    return dg.MetadataValue.timestamp(ms / 1000)


def rows_value(names: Sequence[str], rows: Iterable[Sequence[object]]) -> dg.TableMetadataValue:
    """Rows as Dagster's own table value, whose cells are texts and never markup: a value of a record, or a text of the
    org, may hold anything."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name) for name in names])
    records = [dg.TableRecord(dict(zip(names, map(_cell, row), strict=True))) for row in rows]
    return dg.MetadataValue.table(records, schema)


def lag_seconds(commit_timestamp: datetime | None, now_ms: int) -> Mapping[str, float]:
    """Seconds from an event's commit in the org until now; nothing without an event."""
    if commit_timestamp is None:
        return {}
    return {"lag_seconds": round(now_ms / 1000 - commit_timestamp.astimezone(UTC).timestamp(), 1)}


def _cell(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if abs(value) < _EXACT_IN_A_BROWSER else str(value)
    return str(value)


def _cut(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else shortened(str(value), WIDTH)


def _column(field: pa.Field, described: ObjectDescription | None) -> dg.TableColumn:
    """Return a column with what is known of it: the field's type in Salesforce and whether events may bring it as a
    diff as tags; in words its label and help text in the org, or what else it holds."""
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    tags = {_TAGS[key]: value for key, value in metadata.items() if key in _TAGS}
    words = described.words_for(field.name) if described is not None else None
    description = column_description(field, {field.name: words} if words else {})
    shown = markdown_text(description) if description else description
    return dg.TableColumn(field.name, str(field.type), description=shown, tags=tags)
