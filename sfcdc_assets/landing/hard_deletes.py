"""Records that the org has deleted for good, of objects that are polled: no stamp says so, so records are counted.

What is found is suspect, and read back by its Id: that, and not the count, says what became of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.erasure_receipts import erased_records
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import LISTED_AS_DELETED
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.polls.cursor import Cursor
from sfcdc_assets.polls.sweep import PARTS, Sweep
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.composite_query import counts
from sfcdc_assets.salesforce.errors import QueryRefused, RequestRefused
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.replication import KEPT, deleted_since
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.snapshot.soql import IdWindow, where_all
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

ONLY_HERE = "not in the org"
"""As an audit says it, so that what is read back of it is believed after one more reading."""
ONLY_THERE = "not in the table"
MARGIN = timedelta(hours=1)
"""Before the last search: the clocks may differ, and transactions may have been open."""
MOST_IDS = 10_000_000
"""Ids that the searches under way hold together, 18 bytes each; one object alone may have more."""
log = logging.getLogger(__name__)


@dataclass
class _Search:
    """One that is under way. `has_erased`: records of the object were erased, which the org may count and the table may
    not have; `has_asked`: the org was asked which records were deleted."""

    entity: str
    sweep: Sweep
    has_erased: bool
    has_asked: bool = False

    @property
    def is_to_ask(self) -> bool:
        """Whether the org is to be asked for what was deleted before more is counted."""
        return not self.has_asked and (self.sweep.differs or self.has_erased)


class HardDeletes:
    """The search for them, over one object after another, some requests at a time."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, most_ids: int = MOST_IDS) -> None:
        self._warehouse, self._org, self._most_ids = warehouse, org, most_ids
        self._under_way: dict[str, _Search] = {}
        """By object, those that were begun first before others: one that another is searched before goes on
        afterwards."""

    @property
    def held(self) -> int:
        """How many Ids the searches under way hold."""
        return sum(each.sweep.held for each in self._under_way.values())

    def forget_others(self, entities: Collection[str]) -> None:
        """Give up the searches of other objects: nobody goes on with them, and what they know gets old."""
        self._under_way = {entity: search for entity, search in self._under_way.items() if entity in entities}

    def search(self, entity: str, position: int, most_requests: int, since_ms: int = 0) -> tuple[bool, int]:
        """Search one object, all of whose reads are in its table, from where the last search of it stopped; returns
        whether it is over, and the requests that are left. `position`: where the polls stand; `since_ms`: when the last
        search was made (epoch ms; 0: not known).

        Where a count differs, the org is asked once what was deleted since then, which costs one request for all of it;
        what that does not explain is parted and listed. Of an object with erased records it is asked whatever the
        counts are, and all is listed where it does not say it. Raises what the org refuses; the search is given up
        then.
        """
        left = most_requests
        try:
            search = self._search_of(entity)
            sweep = search.sweep
            while left > 0 and not sweep.is_over:
                left -= 1
                if search.is_to_ask:
                    search.has_asked = True
                    self._ask(search, position, since_ms)
                elif windows := sweep.to_count(PARTS):
                    sweep.counted(self._counts(entity, sweep, windows))
                elif (window := sweep.to_list()) is not None:
                    self._compare(entity, sweep, window, position)
        except Exception:
            self._under_way.pop(entity, None)
            raise
        if sweep.is_over:
            del self._under_way[entity]
        return sweep.is_over, left

    def _search_of(self, entity: str) -> _Search:
        if entity not in self._under_way:
            table = CurrentState.open(self._warehouse, entity)
            assert table is not None, entity
            ids, erased = table.living_ids(), erased_records(self._warehouse)
            has_erased = any(each[:3].decode() in erased.prefixes for each in ids[:1])  # all begin alike
            # What others have found is noted: they begin again, with what is left of it.
            while self._under_way and self.held + len(ids) > self._most_ids:
                self._under_way.pop(next(iter(self._under_way)))
            self._under_way[entity] = _Search(entity, Sweep(ids), has_erased)
        return self._under_way[entity]

    def _ask(self, search: _Search, position: int, since_ms: int) -> None:
        """Make suspect what the org says was deleted, of what the table has. One that does not say it loses nothing."""
        entity, sweep = search.entity, search.sweep
        now, since = clock.now(), Cursor.of_ms(since_ms).stamp - MARGIN
        try:
            deleted = deleted_since(self._org.session, entity, since, now)
        except RequestRefused as refused:
            how = "listed" if search.has_erased else "counted"
            log.info("%s: the org does not say what was deleted, so its records are %s: %s", entity, how, refused)
            if search.has_erased:
                sweep.list_all()
            return
        found = sorted(each for each in deleted if sweep.has(each))
        self._note(entity, [(each, LISTED_AS_DELETED) for each in found], position)
        sweep.without(found)
        if search.has_erased and now - since > KEPT:
            sweep.list_all()

    def _counts(self, entity: str, sweep: Sweep, windows: tuple[IdWindow, ...]) -> dict[IdWindow, int]:
        """Return the counts of the windows, without those that the org gave up on, which are parted."""
        queries = [self._query("COUNT()", entity, window) for window in windows]
        found: dict[IdWindow, int] = {}
        for window, count in zip(windows, counts(self._org.session, queries), strict=True):
            if isinstance(count, QueryRefused) and count.took_too_long and sweep.gave_up(window):
                continue
            if isinstance(count, Exception):
                raise count
            found[window] = count
        return found

    def _compare(self, entity: str, sweep: Sweep, window: IdWindow, position: int) -> None:
        ours = {each.decode() for each in sweep.ids_in(window)}
        theirs = {str(row["Id"]) for row in query_rows(self._org.session, self._query("Id", entity, window))}
        found = [(each, ONLY_HERE) for each in sorted(ours - theirs)]
        found += [(each, ONLY_THERE) for each in sorted(theirs - ours)]
        self._note(entity, found, position)

    def _note(self, entity: str, found: Sequence[tuple[str, str]], position: int) -> None:
        if found:
            suspects = [NewSuspect(each, Reason.DRIFT, position, why) for each, why in found]
            Ledger.open_or_create(self._warehouse, entity).note(suspects, POLLED, position, clock.now_ms())

    def _query(self, what: str, entity: str, window: IdWindow) -> str:
        where = self._org.condition_of(entity, POLLED)
        return f"SELECT {what} FROM {entity}{where_all(window.condition, where)}"
