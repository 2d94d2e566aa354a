"""Which events a table has already, by their keys: an event that is delivered again is landed once (guarantee 2).

Salesforce may deliver an event again after a resume, and may publish one twice, with the same `EventUuid` and another
replay id. After a lost checkpoint all that it keeps (72 hours) comes again. So the keys of what was received in the
last days are held, 16 bytes each, for as long as the channel is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from sfcdc_assets.lake.table import Table

WINDOW_MS = 5 * 24 * 3_600_000
"""Keys of events received earlier are not looked for: Salesforce keeps none for so long."""

Digests = npt.NDArray[np.bytes_]


class LandedKeys:
    """The keys of one channel's table, read from it once and followed from then on."""

    def __init__(self) -> None:
        self._through = 0
        self._sorted: list[Digests] = []

    def unseen(self, table: Table, position: int, keys: Sequence[str], now_ms: int) -> list[bool]:
        """Which of the keys are not in the table, whose last position is `position`; of several copies the first."""
        if position < self._through:
            self._through, self._sorted = 0, []
        if position > self._through:
            since = datetime.fromtimestamp((now_ms - WINDOW_MS) / 1000, UTC).isoformat()
            rows = table.scan(["event_key"], f"position > {self._through} and received_at >= timestamp '{since}'")
            self._add(rows["event_key"].to_pylist())
            self._through = position
        met: set[str] = set()
        found = []
        for key, is_known in zip(keys, self._known(keys), strict=True):
            found.append(not is_known and key not in met)
            met.add(key)
        return found

    def note(self, keys: Sequence[str], position: int) -> None:
        """The events of these were landed, the last of them at `position`."""
        self._add(keys)
        self._through = position

    def _known(self, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
        wanted = _digests(keys)
        known = np.zeros(len(keys), bool)
        for run in self._sorted:
            places = np.minimum(np.searchsorted(run, wanted), len(run) - 1)
            known |= run[places] == wanted
        return known

    def _add(self, keys: Sequence[str]) -> None:
        """As sorted runs, of which each is more than twice as long as the next: adding costs little, and so does
        looking."""
        if not keys:
            return
        self._sorted.append(np.sort(_digests(keys)))
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]))


def _digests(keys: Iterable[str]) -> Digests:
    return np.array([bytes.fromhex(each) for each in keys], dtype="S16")
