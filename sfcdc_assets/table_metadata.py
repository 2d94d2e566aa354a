"""What a materialization tells about its table: Dagster's own keys where it has them, ours in Salesforce's words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

from sfcdc_assets.pipeline.schemas.schema_changes import KEPT_BEFORE, is_retired
from sfcdc_assets.salesforce.object_description import ObjectDescription

Metadata = dict[str, Any]

OWN_COLUMNS = {
    "_is_deleted": "The record is deleted in the org, or gone from it.",
    "_deleted_reason": "How: deleted, merged, hard_deleted; null for a live record.",
    "_in_doubt": "The row may not be what the org has; gap_reconciliation says why, and it is read back.",
    "_change_type": "The kind of the event that made this version, or that it was read from the org.",
    "_changed_fields": "The fields that the event changed.",
    "_position": "Position of the last event in the row, in the order of the channel.",
    "_commit_timestamp": "When the org committed it.",
    "_commit_user": "Id of the user who made the change.",
    "_transaction_key": "The same for all changes of one transaction.",
    "_valid_from": "From when on this version was valid.",
    "_valid_to": "Until when; null for the present version.",
    "_certain_fields": "The fields whose values were told by the stream or read; null: all of them.",
    "_superseded_at": "Position of the event that ended this version.",
    "_read_position": "The watermark of the last read of the org that the row rests on.",
    "_batch": "Number of the batch that wrote the row.",
}
"""What the tables have beside the fields of the object (docs/tables.md)."""

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


def lag_seconds(commit_timestamp: datetime | None, now_ms: int) -> Mapping[str, float]:
    """Seconds between the newest applied event's commit and now; nothing when there is no event yet."""
    if commit_timestamp is None:
        return {}
    return {"lag_seconds": round(now_ms / 1000 - commit_timestamp.astimezone(UTC).timestamp(), 1)}


def _cell(value: object, width: int) -> str:
    text = "" if value is None else str(value)
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.replace("|", "\\|").replace("\n", " ").replace("\r", " ")


def _column(field: pa.Field, described: ObjectDescription | None) -> dg.TableColumn:
    """A column with what is known of it: the field's type in Salesforce and whether events may bring it as a diff as
    tags; its label and help text in the org, or that it has no field any more, in words."""
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    tags = {_TAGS[key]: value for key, value in metadata.items() if key in _TAGS}
    kept = KEPT_BEFORE.fullmatch(field.name)
    description = described.words_for(field.name) if described is not None else None
    if kept:
        description = f"Values of {kept[1]} from before its type changed, which do not convert."
    elif is_retired(field):
        description = "Retired: the object no longer has this field; its last values stay."
    elif field.name in OWN_COLUMNS:
        description = OWN_COLUMNS[field.name]
    return dg.TableColumn(field.name, str(field.type), description=description, tags=tags)
