"""Records of a polled object that were read already: read again, as each poll begins some time before itself, they are
no news."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.polls.cursor import Cursor

SAME_STAMP = timedelta(seconds=10)
"""A record that was read so long after its stamp has had all its changes of that stamp, which is in whole seconds."""
MOST_SEEN = 200_000
"""Records of an object that are remembered; beyond that they are read into the table again."""


class SeenRecords:
    """Records of one object that were read, with all changes of the stamp that they had. What processes before this one
    have read is in the table, and is looked up once."""

    def __init__(self) -> None:
        self._stamps: dict[str, datetime] = {}
        self.is_new = True
        """Nothing was read by this process."""

    def has(self, record_id: str, stamp: datetime) -> bool:
        """Return whether the record was read with this stamp."""
        return self._stamps.get(record_id) == stamp

    def add(self, record_id: str, stamp: datetime, read_at: datetime | None) -> None:
        """Remember a record that was read, unless it may be changed once more within the second of its stamp.
        `read_at`: by the org's clock; None: not known."""
        if read_at is None or stamp + SAME_STAMP > read_at:
            return
        if len(self._stamps) >= MOST_SEEN:
            self._stamps.clear()
        self._stamps[record_id] = stamp

    def learn(self, warehouse: Warehouse, entity: str, record_ids: Sequence[str], seen_until_ms: int) -> None:
        """Remember which of these records another process has read: they are in the table with the stamp that they
        have. `seen_until_ms`: up to when the last poll had seen all changes (epoch ms, UTC); 0: there was none. Does
        nothing once this process has read."""
        if not (self.is_new and seen_until_ms and record_ids):
            return
        table = CurrentState.open(warehouse, entity)
        if table is None:
            return
        seen_until = Cursor.of_ms(seen_until_ms).stamp
        for record_id, stamp in table.stamps_of(list(record_ids)).items():
            self.add(record_id, stamp, seen_until)

    def forget_before(self, moment: datetime) -> None:
        """Forget those that no poll will read again."""
        self._stamps = {record_id: stamp for record_id, stamp in self._stamps.items() if stamp >= moment}
