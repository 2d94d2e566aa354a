"""What a materialization tells about its table: Dagster's own keys where it has them, ours in Salesforce's words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from sfcdc_assets.pipeline.schemas.column_descriptions import column_description
from sfcdc_assets.salesforce.object_description import ObjectDescription

Metadata = dict[str, Any]

SAMPLE_ROWS = 10
"""Rows that a materialization shows."""
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
        metadata["sample"] = dg.MetadataValue.md(markdown_table(sample))
    return metadata


def timestamp(ms: int) -> dg.TimestampMetadataValue:
    """Milliseconds of the epoch (UTC) as Dagster shows a time."""
    return dg.MetadataValue.timestamp(ms / 1000)


def markdown_table(rows: pa.Table, width: int = 40) -> str:
    """Rows as a Markdown table; values are cut to `width` characters."""
    names = rows.column_names
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(_cell(row[name], width) for name in names) + " |" for row in rows.to_pylist()]
    return "\n".join(lines)


def lag_seconds(commit_timestamp: datetime | None, now_ms: int, name: str = "lag_seconds") -> Mapping[str, float]:
    """Seconds from an event's commit in the org until now; nothing without an event."""
    if commit_timestamp is None:
        return {}
    return {name: round(now_ms / 1000 - commit_timestamp.astimezone(UTC).timestamp(), 1)}


def _cell(value: object, width: int) -> str:
    text = "" if value is None else str(value)
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.replace("|", "\\|").replace("\n", " ").replace("\r", " ")


def _column(field: pa.Field, described: ObjectDescription | None) -> dg.TableColumn:
    """A column with what is known of it: the field's type in Salesforce and whether events may bring it as a diff as
    tags; in words its label and help text in the org, or what else it holds."""
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    tags = {_TAGS[key]: value for key, value in metadata.items() if key in _TAGS}
    words = described.words_for(field.name) if described is not None else None
    description = column_description(field, {field.name: words} if words else {})
    return dg.TableColumn(field.name, str(field.type), description=description, tags=tags)
