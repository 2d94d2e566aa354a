"""What the log says of one version of a table: its schema, its settings, and what writers have noted in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa
from deltalake import DeltaTable

from sfcdc_assets.lake.delta.handles import Answers, Held
from sfcdc_assets.lake.store.object_stores import store_refusals

T = TypeVar("T")

STATISTICS_ON = 32
"""Delta's default: the log keeps statistics of so many columns."""

CHANGE_FEED = "delta.enableChangeDataFeed"
CHANGE_FEED_REFUSED = (
    "Delta's change data feed is not for these tables: a batch writes whole key-range files again, so where one row "
    "has changed the feed reports each row of its file as deleted and inserted. Ask changes_since instead"
)


class TableSnapshot:
    """A handle on one version of a table, until a commit through it moves it on."""

    def __init__(self, name: str, delta: DeltaTable) -> None:
        self.name = name
        self._delta = delta
        self._opened = time.monotonic()
        self._held: Held | None = None
        self._answers = Answers()

    @property
    def version(self) -> int:
        """Delta version of this snapshot."""
        return self._delta.version()

    @property
    def table_id(self) -> str:
        """The uuid that the table was given when it was created."""
        return str(self._delta.metadata().id)

    @property
    def has_change_feed(self) -> bool:
        """Somebody has switched on Delta's change data feed (see `CHANGE_FEED_REFUSED`)."""
        return self._delta.metadata().configuration.get(CHANGE_FEED, "false").lower() == "true"

    @property
    def created_ms(self) -> int:
        """When the table was created, by the creator's clock (ms, UTC)."""
        return self._delta.metadata().created_time or 0

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema, with the fields' metadata."""
        with self._asking():
            return self._answers.schema(self.version, lambda: pa.schema(self._delta.schema().to_arrow()))

    def partition_columns(self) -> list[str]:
        """Columns whose values are in the paths of the files and not in the files."""
        return list(self._delta.metadata().partition_columns)

    @property
    def keeps_all_statistics(self) -> bool:
        """Return whether the log has the least and the greatest of any column, and not of some that are named."""
        return "delta.dataSkippingStatsColumns" not in self._delta.metadata().configuration

    def column_statistics(self) -> tuple[str, ...]:
        """Return the columns whose minimum and maximum the log keeps."""
        named = self._delta.metadata().configuration.get("delta.dataSkippingStatsColumns")
        partitioned = self.partition_columns()
        present = [name for name in self.schema.names if name not in partitioned]
        return tuple(name for name in present if name in named.split(",")) if named else tuple(present[:STATISTICS_ON])

    def transaction_version(self, application: str) -> int | None:
        """Return the highest version that `application` has committed as of this snapshot; None when it never has."""
        known = self._answers.transactions(self.version)
        if known is not None:  # a plan asks some twenty of each table
            return known.get(application)
        with self._asking():
            return self._answers.transaction(
                self.version, application, lambda: self._delta.transaction_version(application)
            )

    def answer(self, question: object, ask: Callable[[], T]) -> T:
        """Return what this version answers to a question about its files or settings, worked out once."""
        return self._answers.of(self.version, question, ask)

    def _carry(self, transactions: Mapping[str, int], *, changes_files: bool) -> None:
        """Answers that a commit of this handle did not change need not be asked for again, if no other came between."""
        self._answers.carry(self.version, transactions, changes_files=changes_files)

    @property
    def _root(self) -> str:
        """The warehouse's."""
        return self._delta.table_uri.rstrip("/").removesuffix(f"/{self.name}")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise what the store refuses as `StoreRefused` or `StoreUnavailable`: it says nothing of the table. Nobody
        uses a handle again through which something failed."""
        try:
            with store_refusals(self._root):
                yield
        except BaseException:
            if self._held is not None:
                self._held.spoil()
            raise
