"""The events that a reader of a channel has landed last, by their uuids: a second copy of one is known by it.

A copy may come within a later transaction, and does not end it. Most come soon after their event, which this process
has landed itself; of one that may be older, or that another process has landed, the table is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.lake.delta.conditions import literal, literal_time
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.land import CLOCKS_DIFFER_MS
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import KEPT_AT_MOST_MS

MOST = 20_000
"""Events that are remembered, 3 MB; when there are more, those that were landed first are forgotten."""


class LandedLately:
    """Events of one channel. Where another process has landed some since, all are forgotten."""

    def __init__(self) -> None:
        self._landings: deque[tuple[list[str], datetime]] = deque()
        """Events that were landed together, and when the last of them was committed."""
        self._known: set[str] = set()
        self._since: datetime | None = None
        """Whatever is landed and was committed later is remembered; None: nothing is."""
        self._stands_at: int | None = None

    def among(
        self, raw_events: RawEvents, before: StreamCheckpoint, now: datetime, events: Mapping[str, datetime]
    ) -> set[str]:
        """Return those of the events (uuid -> when the org committed it, UTC) that are landed up to `before`. One in a
        file that cannot be read, or by its header from long before `now`, is taken for a new one: a damaged time is no
        reason to go through all that there is."""
        if before.position != self._stands_at:
            self._landings.clear()
            self._known, self._since = set(), None
        known = events.keys() & self._known
        since = self._since
        asked = {each: at for each, at in events.items() if each not in known and (since is None or at <= since)}
        asked = {each: at for each, at in asked.items() if at > now - _KEPT_AT_MOST}
        if not asked or not before.position:
            return known
        first, last = map(literal_time, (min(asked.values()), max(asked.values())))
        of_channel = f"channel = {literal(before.channel)} and position <= {before.position}"
        with suppress(TableDamaged):
            within = f"{of_channel} and commit_timestamp >= {first} and commit_timestamp <= {last}"
            known |= asked.keys() & set(raw_events.table.scan(["event_id"], within)["event_id"].to_pylist())
        return known

    def landed(self, rows: pa.Table, after: StreamCheckpoint) -> None:
        """Remember rows (`RAW_EVENTS`), landed next, and where the channel stands with them."""
        if rows.num_rows:
            # A damaged header may name a time that is still to come.
            now = pc.max(rows["received_at"]).as_py() + _CLOCKS_DIFFER
            ids, newest = rows["event_id"].to_pylist(), min(pc.max(rows["commit_timestamp"]).as_py(), now)
            self._landings.append((ids, newest))
            self._known.update(ids)
            self._since = self._since or newest
        while len(self._known) > MOST:
            forgotten, newest = self._landings.popleft()
            self._known.difference_update(forgotten)
            self._since = max(newest, self._since or newest)
        self._stands_at = after.position


_KEPT_AT_MOST = timedelta(milliseconds=KEPT_AT_MOST_MS)
_CLOCKS_DIFFER = timedelta(milliseconds=CLOCKS_DIFFER_MS)
