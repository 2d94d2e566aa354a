"""How far the table of a polled object may be behind the org without being wrong (docs/polled-objects.md): by what was
read and no batch has applied yet, by what was changed since the last poll, and, where no stamp says what was changed,
by what was since its records were last compared as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from sfcdc_assets.lake.store.poll_notes import PollNote
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_reads.compare import EXTRA, Difference
from sfcdc_assets.polls.known_objects import ALL_FIELDS
from sfcdc_assets.polls.readability import Readability
from sfcdc_assets.settings.channel_kinds import POLLED


def read_and_not_applied(warehouse: Warehouse, entity: str, table: CurrentState) -> set[str]:
    """Ids of the records that were read into `snapshot`, by polls or one by one, and that this version of the table
    does not have yet."""
    taken = Snapshots.open(warehouse, entity)
    applied = table.checkpoint(POLLED).read_back
    found: set[str] = set()
    for reading in taken.read_backs(applied) if taken is not None else ():
        found |= reading.record_ids
    return found


def unseen_by_polls(how: Readability, differences: Iterable[Difference]) -> set[str]:
    """Ids of the records of which something differs that no poll can find, but a count or a comparison: they were
    deleted for good, or the object has no stamp, or fields that change without it."""
    every = how.stamp is None or how.unstamped == ALL_FIELDS
    return {each.record_id for each in differences if every or each.kind == EXTRA or each.field in how.unstamped}


def seen_through_ms(note: PollNote, how: Readability) -> int:
    """Return the time (epoch ms) before which all that the org has changed in the object was read; the earlier one of
    our clock's and the org's, should they differ."""
    polled = min(note.seen_until_ms, note.asked_at_ms)
    return min(polled, note.compared_at_ms) if how.is_compared and how.stamp is not None else polled
