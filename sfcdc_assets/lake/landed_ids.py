"""Which events a table has already, by their ids: an event that is delivered again is landed once (guarantee 2).

Salesforce may deliver an event again after a resume, and may publish one twice, with the same `EventUuid` and another
replay id. After a lost checkpoint all that it keeps (72 hours) comes again. So the ids of what was received in the last
days are held, 16 bytes each, for as long as the channel is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from sfcdc_assets.lake.table import Table
from sfcdc_assets.streams.delivered_event import DeliveredEvent

WINDOW_MS = 5 * 24 * 3_600_000
"""Ids of events received earlier are forgotten: Salesforce keeps none for so long."""

Digests = npt.NDArray[np.bytes_]


class LandedIds:
    """The ids of one channel's table, read from it once and followed from then on."""

    def __init__(self) -> None:
        self._through = 0
        self._sorted: list[Digests] = []

    def unseen(
        self, table: Table, position: int, events: Sequence[DeliveredEvent], now_ms: int
    ) -> list[DeliveredEvent]:
        """The events that are not in the table, whose last position is `position`; of several copies the first."""
        if position < self._through:
            self._through, self._sorted = 0, []
        if position > self._through:
            since = datetime.fromtimestamp((now_ms - WINDOW_MS) / 1000, UTC).isoformat()
            rows = table.scan(["event_id"], f"position > {self._through} and received_at >= timestamp '{since}'")
            self._add(rows["event_id"].to_pylist())
            self._through = position
        found: list[DeliveredEvent] = []
        met: set[str] = set()
        for event, is_known in zip(events, self._known([each.event_id for each in events]), strict=True):
            if not is_known and event.event_id not in met:
                met.add(event.event_id)
                found.append(event)
        return found

    def note(self, events: Sequence[DeliveredEvent], position: int) -> None:
        """These were landed, the last of them at `position`."""
        self._add([event.event_id for event in events])
        self._through = position

    def _known(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        wanted = _digests(ids)
        known = np.zeros(len(ids), bool)
        for run in self._sorted:
            places = np.minimum(np.searchsorted(run, wanted), len(run) - 1)
            known |= run[places] == wanted
        return known

    def _add(self, ids: Sequence[str]) -> None:
        """As sorted runs, of which each is more than twice as long as the next: adding costs little, and so does
        looking."""
        if not ids:
            return
        self._sorted.append(np.sort(_digests(ids)))
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]))


def _digests(ids: Iterable[str]) -> Digests:
    return np.array([blake2b(each.encode(), digest_size=16).digest() for each in ids], dtype="S16")
