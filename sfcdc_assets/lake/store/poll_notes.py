"""When each polled object was last asked, as a note in the warehouse.

A poll that finds nothing commits nothing, 300 objects a hundred times a day; what it has proved, that nothing was
changed up to a time, is noted here. Without the note the objects are asked once more, from further back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sfcdc_assets.lake.store.notes import put_note, read_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

PATH = "channels_read/polled_objects.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PollNote:
    """Of one object, epoch ms, UTC: when it was asked, by our clock, and up to when its changes were seen then, by the
    org's; everything stamped before `read_from_ms` was read, but for transactions that were open then, of which none is
    older than `covered_ms` (0: the org has not said). Of an object that waits to be copied the org was asked that at
    `covered_asked_ms`, by our clock. Its records were counted at `swept_at_ms`, by our clock. `error`: why the last
    poll failed, if it did, and how often in a row it has."""

    asked_at_ms: int = 0
    seen_until_ms: int = 0
    read_from_ms: int = 0
    error: str | None = None
    failures: int = 0
    swept_at_ms: int = 0
    covered_ms: int = 0
    covered_asked_ms: int = 0


def read_poll_notes(warehouse: Warehouse) -> dict[str, PollNote]:
    """Return the notes by object; none where there are none, or they cannot be read. Raises what `read_note` raises."""
    noted = read_note(warehouse, PATH)
    try:
        return {} if noted is None else {entity: PollNote(**each) for entity, each in json.loads(noted).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def note_polls(warehouse: Warehouse, notes: Mapping[str, PollNote]) -> None:
    """Replace the notes of these objects. That the warehouse does not take them fails no poll."""
    try:
        every = {**read_poll_notes(warehouse), **notes}
        put_note(warehouse, PATH, json.dumps({entity: asdict(each) for entity, each in every.items()}).encode())
    except SfcdcError as error:
        log.warning("It cannot be noted that %d objects were polled: %s", len(notes), error)
