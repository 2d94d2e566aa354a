"""Data files of a table: those that its log names, and those that a commit is to put in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """A live Parquet file of a table: path below the table's root, rows, size in bytes, and its column statistics."""

    path: str
    rows: int
    size: int
    statistics: Mapping[str, Any]

    @property
    def partition(self) -> Mapping[str, str]:
        """Partition column -> value, as the log has it; empty in an unpartitioned table."""
        prefix = "partition."
        return {
            key.removeprefix(prefix): str(value) for key, value in self.statistics.items() if key.startswith(prefix)
        }


@dataclass(frozen=True)
class NewFile:
    """A Parquet file that a task wrote below a table's root and that no commit names yet."""

    path: str
    size: int
    statistics: str
    """Delta's JSON form: numRecords, minValues, maxValues, nullCount."""
    partition: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PackedFiles:
    """`added` have the rows of `removed`, all of one partition."""

    added: Sequence[NewFile]
    removed: Sequence[DataFile]
