"""The end of the demo for polled objects: what takes up to a day otherwise, because no stamp tells of it, is looked for
at once. Records are counted, to find what was deleted for good, and objects without a stamp are compared."""

from __future__ import annotations

from collections.abc import Callable

from sfcdc_assets.cli.demo_parts.demo_org import POLLED
from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import NOW_ALL, TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings

AT_ONCE = {"poll_count_hours": 1e-6, "poll_reread_hours": 1e-6}
MOST_READINGS = 2 * len(POLLED)
"""Each counts some objects, and compares one."""


def finish_polls(warehouse: Warehouse, settings: Settings, sync: Callable[[], int]) -> int:
    """Bring the tables of polled objects to where a day without changes would bring them; returns the ticks of the
    syncs. `sync` applies what was read."""
    with open_org(warehouse, settings.model_copy(update=AT_ONCE)) as org:
        reader = PolledReader(warehouse, org)
        reader.land(NOW_ALL)
        ticks = sync()
        # Twice, as in two days: a record that was deleted for good is not missed by a count while the table still lacks
        # another one that has appeared.
        for _ in range(2):
            since_ms = clock.now_ms()
            for _ in range(MOST_READINGS):
                reader.land(TICK)
                if all(note.swept_at_ms >= since_ms for note in read_poll_notes(warehouse).values()):
                    break
            ticks += sync()
    return ticks
