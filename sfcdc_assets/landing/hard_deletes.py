"""Records that the org has deleted for good, of objects that are polled: no stamp says so, so records are counted.

What is found is suspect, and read back by its Id: that, and not the count, says what became of it.
"""

from __future__ import annotations

from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.polls.sweep import PARTS, Sweep
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.composite_query import counts
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

ONLY_HERE = "not in the org"
"""As an audit says it, so that what is read back of it is believed after one more reading."""
ONLY_THERE = "not in the table"


class HardDeletes:
    """The search for them, over one object after another, some requests at a time."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection) -> None:
        self._warehouse, self._org = warehouse, org
        self._under_way: tuple[str, Sweep] | None = None

    def search(self, entity: str, position: int, most_requests: int) -> tuple[bool, int]:
        """Search one object, all of whose reads are in its table, from where the last search of it stopped; returns
        whether it is over, and the requests that are left. `position`: where the polls stand.

        Raises what the org refuses; the search is given up then.
        """
        left = most_requests
        try:
            sweep = self._sweep_of(entity)
            while left > 0 and not sweep.is_over:
                windows = sweep.to_count(PARTS)
                if windows:
                    left -= 1
                    sweep.counted(self._counts(entity, windows))
                window = sweep.to_list() if left > 0 else None
                if window is not None:
                    left -= 1
                    self._compare(entity, sweep, window, position)
        except SfcdcError:
            self._under_way = None
            raise
        if sweep.is_over:
            self._under_way = None
        return sweep.is_over, left

    def _sweep_of(self, entity: str) -> Sweep:
        if self._under_way is None or self._under_way[0] != entity:
            table = CurrentState.open(self._warehouse, entity)
            assert table is not None, entity
            self._under_way = entity, Sweep(table.living_ids())
        return self._under_way[1]

    def _counts(self, entity: str, windows: tuple[IdWindow, ...]) -> dict[IdWindow, int]:
        queries = [_query("COUNT()", entity, window) for window in windows]
        found: dict[IdWindow, int] = {}
        for window, count in zip(windows, counts(self._org.session, queries), strict=True):
            if isinstance(count, Exception):
                raise count
            found[window] = count
        return found

    def _compare(self, entity: str, sweep: Sweep, window: IdWindow, position: int) -> None:
        ours = {each.decode() for each in sweep.ids_in(window)}
        theirs = {str(row["Id"]) for row in query_rows(self._org.session, _query("Id", entity, window))}
        found = [(each, ONLY_HERE) for each in sorted(ours - theirs)]
        found += [(each, ONLY_THERE) for each in sorted(theirs - ours)]
        if found:
            suspects = [NewSuspect(each, Reason.DRIFT, position, why) for each, why in found]
            Ledger.open_or_create(self._warehouse, entity).note(suspects, POLLED, position, clock.now_ms())


def _query(what: str, entity: str, window: IdWindow) -> str:
    return f"SELECT {what} FROM {entity}" + (f" WHERE {window.condition}" if window.condition else "")
