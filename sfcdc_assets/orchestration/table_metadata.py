"""What a materialization reports about its table: Dagster's own keys where it has them, ours in Salesforce's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from sfcdc_assets.runtime.foreign_text import markdown_text
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.column_descriptions import column_description
from sfcdc_assets.settings.settings import load_settings

Metadata = dict[str, Any]

SAMPLE = "sample"
"""The entry with rows of a table, where SFCDC_SAMPLE_ROWS asks for some."""
WIDTH = 40
"""Characters of a value that a sample shows."""
_EXACT_IN_A_BROWSER = 2**53
_TAGS = {"salesforce.type": "salesforce_type", "salesforce.large_text": "large_text"}


def table_metadata(
    uri: str,
    name: str,
    rows: int | None,
    schema: pa.Schema,
    sample: pa.Table | None = None,
    lineage: dg.TableColumnLineage | None = None,
    described: ObjectDescription | None = None,
) -> Metadata:
    """Place, columns, where they come from, and a sample of rows, under the keys that Dagster's UI knows
    (docs/dagster-notes.md, "Metadata keys").

    `rows` are the partition's: `dagster/row_count` would be shown as those of the asset, whichever entity came last.
    The UI shows entries in their order: put what a batch did before them.
    """
    metadata: Metadata = {
        "dagster/table_name": name,
        "dagster/storage_kind": "deltalake",
        "dagster/uri": uri,
        "dagster/column_schema": dg.TableSchema(columns=[_column(field, described) for field in schema]),
    }
    if rows is not None:
        metadata["dagster/partition_row_count"] = rows
    if lineage is not None:
        metadata["dagster/column_lineage"] = lineage
    if sample is not None and sample.num_rows:
        names = sample.column_names
        metadata[SAMPLE] = rows_value(names, ([_cut(row[name]) for name in names] for row in sample.to_pylist()))
    return metadata


def sample_rows() -> int:
    """Return how many rows of a table a materialization shows: SFCDC_SAMPLE_ROWS, 0 unless somebody asks for them."""
    return load_settings().sample_rows


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
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _column(field: pa.Field, described: ObjectDescription | None) -> dg.TableColumn:
    """Return a column with what is known of it: the field's type in Salesforce and whether events may bring it as a
    diff as tags; in words its label and help text in the org, or what else it holds."""
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    tags = {_TAGS[key]: value for key, value in metadata.items() if key in _TAGS}
    words = described.words_for(field.name) if described is not None else None
    description = column_description(field, {field.name: words} if words else {})
    shown = markdown_text(description) if description else description
    return dg.TableColumn(field.name, str(field.type), description=shown, tags=tags)
