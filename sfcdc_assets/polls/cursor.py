"""From where on an object is asked for what changed: the stamp and the Id of the last record that was read.

Records of one stamp are told apart by their Ids, so a page may end anywhere among a hundred thousand that one job has
stamped at once. A transaction's stamps are older than its commit: what it changed becomes visible later than what
others changed meanwhile (Knowledge Article 000199029, "getUpdated and latestDateCovered"). So each poll begins some
time before the last stamp that was read; what is read twice changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from sfcdc_assets.runtime.times import epoch_ms, utc

REREAD = timedelta(minutes=10)
"""The longest that a call other than a query may run (Salesforce Developer Limits, "API Request Timeouts"), and so the
age that a stamp may have when it becomes visible."""
OPEN_BEFORE = timedelta(hours=1)
"""How long a transaction may have been open, where nobody has noted which ones were; its stamps are of its
beginning."""


@dataclass(frozen=True, order=True)
class Cursor:
    """Everything up to this record was read. `record_id` empty: everything before the stamp was."""

    stamp: datetime
    record_id: str = ""

    @classmethod
    def of_ms(cls, stamp_ms: int, record_id: str = "") -> Self:
        """Return the cursor at a stamp in ms since the epoch, UTC."""
        return cls(utc(stamp_ms), record_id)

    @property
    def stamp_ms(self) -> int:
        """The stamp in whole ms since the epoch, UTC, which is as fine as Salesforce's are."""
        return epoch_ms(self.stamp)

    def back_by(self, length: timedelta) -> Cursor:
        """Return where a reading begins that is to see what became visible late."""
        return Cursor(self.stamp - length)

    def ahead_by(self, length: timedelta) -> Cursor:
        """Return where a reading ends that asks for no more than the stamps of so long."""
        return Cursor(self.stamp + length)

    def condition(self, field: str) -> str:
        """Return what comes after it, as a condition of SOQL; a query in the order of `order` has it in full."""
        stamp = soql_time(self.stamp)
        if not self.record_id:
            return f"{field} >= {stamp}"
        return f"({field} > {stamp} OR ({field} = {stamp} AND Id > '{self.record_id}'))"


def order(field: str) -> str:
    """Return the order in which the records after a cursor are read."""
    return f"ORDER BY {field}, Id"


def soql_time(moment: datetime) -> str:
    """Return a time as SOQL takes it, in ms."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
