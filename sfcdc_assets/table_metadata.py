"""What a materialization tells about its table: Dagster's own keys where it has them, ours in Salesforce's words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa

Metadata = dict[str, Any]


def table_metadata(uri: str, name: str, rows: int, schema: pa.Schema, sample: pa.Table | None = None) -> Metadata:
    """Row count, place, columns and a sample of rows, under the keys that Dagster's UI knows (facts/DAGSTER.md 5).

    The UI shows entries in their order: put what a batch did before them.
    """
    metadata: Metadata = {
        "dagster/row_count": rows,
        "dagster/table_name": name,
        "dagster/storage_kind": "deltalake",
        "dagster/uri": uri,
        "dagster/column_schema": dg.TableSchema(
            columns=[dg.TableColumn(field.name, str(field.type), tags=_tags(field)) for field in schema]
        ),
    }
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


def _tags(field: pa.Field) -> dict[str, str]:
    known = (field.metadata or {}).get(b"salesforce.type")
    return {"salesforce_type": known.decode()} if known else {}
