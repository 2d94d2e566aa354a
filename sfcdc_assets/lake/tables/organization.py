"""`organization`: which org the warehouse is a copy of, and on which instance each of its channels was read.

A row for each thing learned, the newest counts. It is a table of its own, because rows outlive the cleanup of the log,
and because it must be there before the first event is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_changes import Remembered
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc

NAME = "organization"
ORGANIZATION = pa.schema(
    [
        ("number", pa.int64()),
        ("what", pa.string()),
        ("organization_id", pa.string()),
        ("channel", pa.string()),
        ("instance", pa.string()),
        ("position", pa.int64()),
        ("noted_at", pa.timestamp("us", "UTC")),
    ]
)


class What(StrEnum):
    """What a row says."""

    BOUND = "bound"
    """The warehouse belongs to the organization from now on."""
    ACCEPTED = "accepted"
    """The channel's order was broken at `position`, because a person accepted another organization."""
    INSTANCE = "instance"
    """The channel is read on this instance of Salesforce from `position` on."""


def organization_of(warehouse: Warehouse) -> str | None:
    """Return the organization that the warehouse belongs to; None before the first."""
    return _known(warehouse)[0]


def commits_are_atomic(warehouse: Warehouse) -> bool:
    """Return whether commits are atomic, as `OrganizationLog.commits_are_atomic`."""
    return _known(warehouse)[1]


def _known(warehouse: Warehouse) -> tuple[str | None, bool]:
    return _KNOWN.of(warehouse, [None], lambda _: _read(OrganizationLog(warehouse)))[None]


def _read(log: OrganizationLog) -> tuple[str | None, bool]:
    return log.organization_id, log.commits_are_atomic


_KNOWN = Remembered[None, tuple[str | None, bool]](most=10)


class OrganizationLog:
    """A handle on one snapshot of the table; what is appended goes through the snapshot that was read."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._table = Table.open(warehouse, NAME)
        rows = self._table.rows() if self._table else []
        self._rows: list[dict[str, Any]] = sorted(rows, key=itemgetter("number"))

    @property
    def organization_id(self) -> str | None:
        """The organization that the warehouse belongs to, 18 characters; None before the first."""
        bound = [row["organization_id"] for row in self._rows if row["what"] == What.BOUND]
        return bound[-1] if bound else None

    @property
    def commits_are_atomic(self) -> bool:
        """Whether the store is known to lose no commit: a folder's does not (`sfcdc doctor` tries it), an object
        store's was tried at this very address, which is noted as a transaction of this table."""
        tried = self._table is not None and self._table.transaction_version(self._tried) is not None
        return self._warehouse.is_local or tried

    @property
    def _tried(self) -> str:
        return f"commits are atomic at {self._warehouse.root}"

    def note_atomic_commits(self) -> None:
        """Note that the store was tried. Raises `ConcurrentCommit`."""
        self._append([], 0, {self._tried: 1})

    def version_of(self, name: str) -> int:
        """Return a number that was noted under a name, 0 where there is none."""
        return (self._table.transaction_version(name) or 0) if self._table is not None else 0

    def note_version(self, name: str, number: int) -> None:
        """Keep a number under a name. Raises `ConcurrentCommit`."""
        self._append([], 0, {name: number})

    def instance(self, channel: str) -> str | None:
        """Return the instance that the channel was last read on; None when that is not known of the present
        organization."""
        names = [row for row in self._rows if row["what"] == What.INSTANCE and row["channel"] == channel]
        return names[-1]["instance"] if names and names[-1]["organization_id"] == self.organization_id else None

    def accepted_at(self, channel: str) -> int:
        """Return the channel's position at which another organization was accepted, 0 when none was. Events up to it
        say nothing of this organization, and rows that were read before it may vanish, all of them, without a
        question."""
        return max(
            (row["position"] for row in self._rows if row["what"] == What.ACCEPTED and row["channel"] == channel),
            default=0,
        )

    def bind(self, organization_id: str, now_ms: int, broken_at: Mapping[str, int]) -> None:
        """Give the warehouse to an organization; `broken_at`: channel -> where its order was broken for it.

        Raises `ConcurrentCommit`.
        """
        accepted = [
            {"what": What.ACCEPTED.value, "organization_id": organization_id, "channel": channel, "position": position}
            for channel, position in broken_at.items()
        ]
        self._append([*accepted, {"what": What.BOUND.value, "organization_id": organization_id}], now_ms)

    def note_instance(self, channel: str, organization_id: str, instance: str, position: int, now_ms: int) -> None:
        """Note that the organization's channel is read on this instance from a position on. Raises
        `ConcurrentCommit`."""
        row = {"what": What.INSTANCE.value, "channel": channel, "instance": instance, "position": position}
        self._append([{**row, "organization_id": organization_id}], now_ms)

    def _append(
        self, rows: list[dict[str, Any]], now_ms: int, transactions: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        first = len(self._rows) + 1
        at = utc(now_ms)
        numbered = [{"number": first + index, **row, "noted_at": at} for index, row in enumerate(rows)]
        if self._table is None:
            self._table = Table.open_or_create(self._warehouse, NAME, ORGANIZATION)
        # The highest number is a transaction version, so of two processes that learn something at once one is refused.
        last = first + len(rows) - 1
        versions = {**({NAME: last} if rows else {}), **transactions}
        self._table.append(pa.Table.from_pylist(numbered, schema=ORGANIZATION), versions, {})
        self._rows = [*self._rows, *numbered]
