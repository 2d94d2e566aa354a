"""What follows from each reason: who notices a suspect, what waits for it, whether rows are marked, what answers it.

docs/tables.md has this table for readers, written from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sfcdc_assets.timeline.suspect import Reason


@dataclass(frozen=True)
class Behaviour:
    """What one reason does.

    `about`: one record, the whole entity, or a read of the entity (its rows are as good as before). `raised_by`: what
    notices it. `blocks`: later events of the record, or of the entity, wait until it is answered. `marks`:
    `_in_doubt` is set in its rows. `answered_by`: what ends it. `again`: one that was healed may come up again at the
    same position; otherwise a batch that is repeated finds it noted. `pauses_ms`: the first and the longest pause
    between reads that fail, where they are not the usual ones. `settles_ms`: for how long after it was noted changes
    may still raise no event, so that a read which began before would miss them.
    """

    about: Literal["record", "entity", "read"]
    raised_by: Literal["event", "batch", "snapshot", "schema", "stream", "setup", "audit"]
    blocks: bool = True
    marks: bool = True
    answered_by: Literal["read-back", "snapshot", "believed read"] = "read-back"
    again: bool = False
    pauses_ms: tuple[int, int] | None = None
    settles_ms: int = 0


SETUP_SETTLES_MS = 600_000
"""How long it may take until a stream follows a change of permissions or channels (docs/salesforce-streams.md, "Live
streams, sessions and permissions")."""

_EVENT = Behaviour("record", "event")
_BATCH = Behaviour("record", "batch")
_ENTITY = Behaviour("entity", "event", answered_by="snapshot")

BEHAVIOUR: dict[Reason, Behaviour] = {
    Reason.GAP_CREATE: _EVENT,
    Reason.GAP_UPDATE: _EVENT,
    Reason.GAP_DELETE: _EVENT,
    Reason.GAP_UNDELETE: _EVENT,
    Reason.GAP_OVERFLOW: _ENTITY,
    Reason.WILDCARD: _ENTITY,
    Reason.UNPROVEN_DIFF: _BATCH,
    Reason.BASELESS_DIFF: _BATCH,
    Reason.HASHED_DIFF: _BATCH,
    Reason.UNKNOWN_RECORD: _BATCH,
    Reason.DELETED_RECORD: _BATCH,
    Reason.LATE_EVENT: _BATCH,
    Reason.UNDECODABLE_PAYLOAD: _EVENT,
    Reason.UNKNOWN_CHANGE_TYPE: _EVENT,
    Reason.LOST_CHECKPOINT: Behaviour("entity", "stream", answered_by="snapshot"),
    Reason.MISSED_EVENTS: Behaviour("entity", "setup", answered_by="snapshot", settles_ms=SETUP_SETTLES_MS),
    Reason.OFF_CHANNEL: Behaviour("entity", "setup", answered_by="snapshot"),
    Reason.MISSING_VALUE: _EVENT,
    Reason.SILENT_CHANGE: Behaviour("record", "batch", blocks=False, marks=False),
    Reason.NEW_FIELD: Behaviour("entity", "schema", blocks=False, marks=False, answered_by="snapshot"),
    Reason.RETYPED_FIELD: Behaviour("entity", "schema", answered_by="snapshot"),
    Reason.STALE_SNAPSHOT: Behaviour("record", "snapshot"),
    Reason.UNREADABLE_ROW: Behaviour("record", "snapshot"),
    Reason.VANISHED: Behaviour(
        "read",
        "snapshot",
        blocks=False,
        marks=False,
        answered_by="believed read",
        again=True,
        pauses_ms=(600_000, 86_400_000),  # a snapshot that was not believed costs the most
    ),
    Reason.VIEW_ALL_MISSING: Behaviour(
        "read",
        "snapshot",
        blocks=False,
        marks=False,
        answered_by="believed read",
        again=True,
        pauses_ms=(30_000, 300_000),  # to ask for a permission costs the least
    ),
    Reason.NOT_READABLE: Behaviour(
        "read",
        "snapshot",
        blocks=False,
        marks=False,
        answered_by="believed read",
        again=True,
        pauses_ms=(30_000, 3_600_000),  # hundreds of objects may be so, each of which costs requests
    ),
    Reason.OTHER_CHANNEL: Behaviour("entity", "snapshot", blocks=False, marks=False, answered_by="snapshot"),
    Reason.DRIFT: Behaviour("record", "audit", blocks=False, marks=False, again=True),
}


def _reasons(wanted: Callable[[Behaviour], bool]) -> frozenset[Reason]:
    return frozenset(reason for reason, behaviour in BEHAVIOUR.items() if wanted(behaviour))


OF_A_SNAPSHOT = _reasons(lambda each: (each.about, each.raised_by) == ("record", "snapshot"))
"""Raised at a snapshot's watermark; their detail names the snapshot, because two may have one watermark."""

UNMARKED = _reasons(lambda each: each.about == "record" and not each.marks)
"""They do not block their record's events, because no event of its own opened them: only a read ends them."""

REFUSED_READS = _reasons(lambda each: each.about == "read")
"""About a read of the entity, not about its rows: no watermark answers them."""

NOT_BLOCKING = _reasons(lambda each: each.about != "record" and not each.blocks)
"""About the entity or a read of it; its events go on."""

NOTED_AGAIN = _reasons(lambda each: each.again)
"""They may come up again where they were healed before."""

CHANGED_COLUMNS = _reasons(lambda each: each.raised_by == "schema")
"""After them, pages that were read before have other columns than the table."""

MISSING_EVENTS = _reasons(lambda each: each.raised_by == "setup")
"""Changes of the entity raised no event for a while, or raise none now."""

SILENT = MISSING_EVENTS | {Reason.RETYPED_FIELD}
"""What changed raised no event, at some time before the entry was noted or after it: values may change with the type of
their field."""
