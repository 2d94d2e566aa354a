"""`push_topic_state/<Topic>`: what is known of each record of a PushTopic, with the position up to which its
notifications are in it, in one commit (guarantee 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sfcdc_assets.event_channels.push_topics.known_record import KnownRecord
from sfcdc_assets.event_channels.push_topics.state_rows import ID, STATE_COLUMNS, known_of_row, state_rows, state_schema
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.current_state import conditions_on_ids
from sfcdc_assets.lake.warehouse import Warehouse

LAYER = "push_topic_state"


def name_of(topic: str) -> str:
    """Path of the topic's table below the warehouse."""
    return f"{LAYER}/{topic}"


class PushTopicState:
    """A handle on one snapshot of the table; commits go through the snapshot that `applied` was read from."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open(cls, warehouse: Warehouse, topic: str) -> PushTopicState | None:
        """Return the newest snapshot; None where nothing of the topic was ever folded."""
        table = Table.open(warehouse, name_of(topic))
        return None if table is None else cls(table)

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, topic: str, fields: Sequence[pa.Field]) -> PushTopicState:
        """Return the newest snapshot with a column for each of these fields: the table is created, or widened. Raises
        `ConcurrentCommit`."""
        statistics = [ID, "_position"]
        table = Table.open_or_create(warehouse, name_of(topic), state_schema(fields), statistics_on=statistics)
        table.add_columns([field for field in fields if field.name not in table.schema.names])
        return cls(table)

    @property
    def fields(self) -> list[str]:
        """Columns of fields, `Id` included."""
        return [name for name in self.table.schema.names if name not in STATE_COLUMNS.names]

    def applied(self, channel: str) -> int:
        """Position up to which the channel's notifications are in the rows; 0 before the first."""
        return self.table.transaction_version(channel) or 0

    def known(self, record_ids: Sequence[str]) -> dict[str, KnownRecord]:
        """Return what is known of these records; those without a row are left out."""
        found: dict[str, KnownRecord] = {}
        for of_records in conditions_on_ids(sorted(record_ids)):
            found |= {row[ID]: known_of_row(row) for row in self.table.rows(predicate=of_records)}
        return found

    def batches(self) -> Iterator[dict[str, KnownRecord]]:
        """Yield what is known of all records, part by part."""
        for rows in self.table.batches(self.table.schema.names, "Id is not null"):
            yield {row[ID]: known_of_row(row) for row in rows.to_pylist()}

    def counts(self) -> dict[str, int]:
        """Rows in all, and of them those that are deleted, and that left the filter."""
        rows: list[dict[str, Any]] = self.table.rows(["_is_deleted", "_left_filter_at"])
        return {
            "rows": len(rows),
            "deleted": sum(row["_is_deleted"] for row in rows),
            "left": sum(row["_left_filter_at"] is not None for row in rows),
        }

    def commit(self, known: dict[str, KnownRecord], channel: str, position: int) -> None:
        """Put these records' rows in the place of theirs, and note the position. Raises `ConcurrentCommit` after any
        commit since this handle was opened."""
        transactions = {channel: position}
        if known:
            self.table.upsert(state_rows(known, self.table.schema), [ID], transactions)
        else:
            self.table.append(self.table.schema.empty_table(), transactions, {})
