"""When each polled object was last asked, as a note in the warehouse.

A poll that finds nothing commits nothing, 300 objects a hundred times a day; what it has proved, that nothing was
changed up to a time, is noted here. Without the note the objects are asked once more, from further back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace

from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json, remove_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError, counted

PATH = "channels_read/polled_objects.json"


@dataclass(frozen=True)
class PollNote:
    """Of one object, epoch ms, UTC: when it was asked, by our clock, and up to when its changes were seen then, by the
    org's; everything stamped before `read_from_ms` was read, but for transactions that were open then, of which none is
    older than `covered_ms` (0: the org has not said). Of an object that waits to be copied the org was asked that at
    `covered_asked_ms`, by our clock. Its records were counted at `swept_at_ms`, by our clock. `error`: why the last
    poll failed, if it did, and how often in a row it has; `sweep_error` and `sweep_failures` likewise of the counts and
    comparisons. At `compared_at_ms`, by our clock, what no stamp tells of was compared. `read_back`: the last
    read-back of the object after the poll; since `same_since_ms`, by the org's clock, no poll found anything new. With
    `has_more` the last poll left records for the next one, which is due; `window_ms`: it asks for those of so many ms
    of stamps only (0: for all), because the org gave up on more. Those before `window_at_ms` were asked for then, the
    first of them at `window_begun_ms`, both by the org's clock. `refused_stamp`: the field by
    which the org refuses to be asked for what changed, though its describe says that it may be."""

    asked_at_ms: int = 0
    seen_until_ms: int = 0
    read_from_ms: int = 0
    error: str | None = None
    failures: int = 0
    swept_at_ms: int = 0
    covered_ms: int = 0
    covered_asked_ms: int = 0
    read_back: int = 0
    same_since_ms: int = 0
    sweep_error: str | None = None
    sweep_failures: int = 0
    compared_at_ms: int = 0
    has_more: bool = False
    window_ms: int = 0
    window_at_ms: int = 0
    window_begun_ms: int = 0
    refused_stamp: str | None = None


class PollsFailed(SfcdcError):
    """Objects could not be polled, though others were. `failed`: object -> why."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        self.failed = failed
        listed = "; ".join(f"{entity}: {why.rstrip('.')}" for entity, why in failed.items())
        super().__init__(f"Not all objects could be polled. {listed}. They are asked again; what was read is kept.")


def failed_polls(warehouse: Warehouse, wanted: Collection[str] = ()) -> dict[str, str]:
    """Return the objects whose last polls failed, and why; of the `wanted` ones, if any are. Raises what `read_note`
    raises."""
    return {
        entity: note.error
        for entity, note in sorted(read_poll_notes(warehouse).items())
        if note.error is not None and (not wanted or entity in wanted)
    }


def read_poll_notes(warehouse: Warehouse) -> dict[str, PollNote]:
    """Return the notes by object; none where there are none, or they cannot be read. Raises what `read_note` raises."""
    return read_json(
        warehouse, PATH, lambda noted: {entity: PollNote(**each) for entity, each in noted.items()}, otherwise={}
    )


def note_polls(warehouse: Warehouse, notes: Mapping[str, PollNote]) -> None:
    """Replace the notes of these objects. That the warehouse does not take them fails no poll."""
    with failing_nothing(f"that {counted(len(notes), 'object')} were polled"):
        every = {**read_poll_notes(warehouse), **notes}
        put_json(warehouse, PATH, {entity: asdict(each) for entity, each in every.items()})


def forget_failures_of_others(warehouse: Warehouse, polled: Collection[str]) -> None:
    """Forget why objects could not be polled, or counted, that are not polled any more: nobody asks them again."""
    stale = {
        entity: replace(note, error=None, failures=0, sweep_error=None, sweep_failures=0)
        for entity, note in read_poll_notes(warehouse).items()
        if entity not in polled and (note.error or note.sweep_error)
    }
    if stale:
        note_polls(warehouse, stale)


FAILED_PATH = "channels_read/polls_failed.json"


@dataclass(frozen=True)
class PollsStopped:
    """Why no object could be polled, and since when (epoch ms, by our clock)."""

    why: str
    since_ms: int


def polls_stopped(warehouse: Warehouse) -> PollsStopped | None:
    """Return why the last reading of all objects failed; None where it did not. Raises what `read_note` raises."""
    return read_json(warehouse, FAILED_PATH, lambda noted: PollsStopped(**noted), otherwise=None)


def note_polls_stopped(warehouse: Warehouse, why: str | None, now_ms: int) -> None:
    """Note why no object could be polled, None where they were. That the warehouse does not take it fails nothing."""
    with failing_nothing("whether objects were polled"):
        before = polls_stopped(warehouse)
        if why is None and before is not None:
            remove_note(warehouse, FAILED_PATH)
        elif why is not None and (before is None or before.why != why):
            since_ms = before.since_ms if before is not None else now_ms
            put_json(warehouse, FAILED_PATH, asdict(PollsStopped(why, since_ms)))
