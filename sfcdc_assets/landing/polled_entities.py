"""Which objects are polled: those that the settings take and the org shows, once they were copied."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sfcdc_assets.entities.entity_facts import readable_facts
from sfcdc_assets.entities.refused_reads import end_refusals_of_others
from sfcdc_assets.lake.store.left_out_objects import note_left_out
from sfcdc_assets.lake.store.poll_notes import forget_failures_of_others
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import POLLED

MEMBERS_SECONDS = 600.0
"""How long the list of the org's objects is believed."""
LOOK_SECONDS = 30.0
"""How often the tables are looked at for objects that were copied meanwhile."""
_NEVER = float("-inf")


class PolledEntities:
    """The polled objects of a process; asks the org for them every `MEMBERS_SECONDS`, and the tables more often."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, on_begin: Callable[[Collection[str]], object]) -> None:
        """`on_begin` is called with those that are polled from now on and were not just before."""
        self._warehouse, self._org, self._on_begin = warehouse, org, on_begin
        self._members: tuple[float, tuple[str, ...]] = (_NEVER, ())
        self._copied: tuple[float, tuple[str, ...]] = (_NEVER, ())
        self.not_begun: tuple[str, ...] = ()
        """Those of which no copy was begun, as of the last look."""

    def copied(self, *, looks_again: bool = False) -> tuple[str, ...]:
        """Return those that are polled and were copied; the tables say which. `looks_again`: whenever they were last
        looked at. Raises what the org fails with when it is asked for its objects."""
        now = clock.current().monotonic()
        if now - self._members[0] > MEMBERS_SECONDS:
            self._members, self._copied = (now, self._asked()), (_NEVER, self._copied[1])
        if looks_again or now - self._copied[0] > LOOK_SECONDS:
            facts = readable_facts(self._warehouse, dict.fromkeys(self._members[1], POLLED))
            copied = tuple(entity for entity, each in facts.items() if each.snapshot_complete and each.has_watermark)
            self._on_begin(set(copied) - set(self._copied[1]))
            self._copied = (now, copied)
            self.not_begun = tuple(entity for entity, each in facts.items() if each.snapshot_schema is None)
        return self._copied[1]

    def _asked(self) -> tuple[str, ...]:
        """Return those that the settings take; why others are left out is noted."""
        selection = self._org.polled_objects()
        note_left_out(self._warehouse, selection.left_out)
        end_refusals_of_others(self._warehouse, POLLED, selection.polled, clock.now_ms())
        asked = tuple(filter(self._org.poll.asks, selection.polled))
        forget_failures_of_others(self._warehouse, asked)
        return asked
