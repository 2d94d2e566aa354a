"""One snapshot of a Delta table: what its log says of it, and what becomes of a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import DeltaTable

from sfcdc_assets.lake.handles import Answers, Held
from sfcdc_assets.lake.stores import store_refusals

T = TypeVar("T")

STATISTICS_ON = 32
"""Delta's default: the log keeps statistics of so many columns."""


class TableSnapshot:
    """A handle on one version of a table, until a commit through it moves it on."""

    def __init__(self, name: str, delta: DeltaTable) -> None:
        self.name = name
        self._delta = delta
        self._held: Held | None = None
        self._answers = Answers()

    @property
    def version(self) -> int:
        """Delta version of this snapshot."""
        return self._delta.version()

    @property
    def created_ms(self) -> int:
        """When the table was created, by the creator's clock (ms, UTC)."""
        return self._delta.metadata().created_time or 0

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema, with the fields' metadata."""
        with self._asking():
            return self._answers.schema(self.version, lambda: pa.schema(self._delta.schema().to_arrow()))

    def schema_at(self, moment: datetime) -> pa.Schema:
        """Arrow schema as it was at a time, or at the beginning if the table is younger."""
        with self._asking():
            past = DeltaTable(self._delta.table_uri)
            past.load_as_version(moment)
            return pa.schema(past.schema().to_arrow())

    def partition_columns(self) -> list[str]:
        """Columns whose values are in the paths of the files and not in the files."""
        return list(self._delta.metadata().partition_columns)

    def column_statistics(self) -> tuple[str, ...]:
        """The columns whose minimum and maximum the log keeps."""
        named = self._delta.metadata().configuration.get("delta.dataSkippingStatsColumns")
        partitioned = self.partition_columns()
        present = [name for name in self.schema.names if name not in partitioned]
        return tuple(name for name in present if name in named.split(",")) if named else tuple(present[:STATISTICS_ON])

    def transaction_version(self, application: str) -> int | None:
        """The highest version that `application` has committed as of this snapshot; None when it never has."""
        with self._asking():
            return self._answers.transaction(
                self.version, application, lambda: self._delta.transaction_version(application)
            )

    def answer(self, question: object, ask: Callable[[], T]) -> T:
        """What this version answers to a question about its files or settings, worked out once."""
        return self._answers.of(self.version, question, ask)

    def _carry(self, transactions: Mapping[str, int], *, changes_files: bool) -> None:
        """Answers that a commit of this handle did not change need not be asked for again, if no other came between."""
        self._answers.carry(self.version, transactions, changes_files=changes_files)

    def told_by_commits(self) -> Iterator[Mapping[str, Any]]:
        """What the commits whose log is kept say of themselves, the newest first: for display, and for what older
        releases kept there. Lists the whole log."""
        with self._asking():
            said = self._delta.history()
        yield from said

    @property
    def _root(self) -> str:
        """The warehouse's."""
        return self._delta.table_uri.rstrip("/").removesuffix(f"/{self.name}")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raises what the store refuses as `StoreRefused` or `StoreUnavailable`: it says nothing of the table. Nobody
        uses a handle again through which something failed."""
        try:
            with store_refusals(self._root):
                yield
        except BaseException:
            if self._held is not None:
                self._held.spoil()
            raise
