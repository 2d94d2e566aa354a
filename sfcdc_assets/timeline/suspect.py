"""Suspects: records, or whole entities, of which the stream does not tell the whole truth, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from sfcdc_assets.timeline.changes import UNDECODABLE


class Reason(StrEnum):
    """Why a record (or a whole entity) is suspect until the org was read again (guarantee 7). What follows from each
    reason: `suspect_behaviour`."""

    GAP_CREATE = "GAP_CREATE"
    """Salesforce could not make the event of a create."""
    GAP_UPDATE = "GAP_UPDATE"
    """Salesforce could not make the event of an update."""
    GAP_DELETE = "GAP_DELETE"
    """Salesforce could not make the event of a delete."""
    GAP_UNDELETE = "GAP_UNDELETE"
    """Salesforce could not make the event of an undelete."""
    GAP_OVERFLOW = "GAP_OVERFLOW"
    """A transaction had more changes than events are made for."""
    WILDCARD = "wildcard"
    """An event for all records of the entity, such as after a field's type was changed."""
    UNPROVEN_DIFF = "unproven_diff"
    """A diff did not give, from the last known value, a text with the hash it names."""
    BASELESS_DIFF = "baseless_diff"
    """A diff came for a field whose value before it is not known."""
    HASHED_DIFF = "hashed_diff"
    """A diff came for a field of which the tables hold a hash; there is nothing it could be applied to."""
    UNKNOWN_RECORD = "unknown_record"
    """An update of a record that was never seen."""
    DELETED_RECORD = "deleted_record"
    """An event changes or creates a record that is deleted by its row, or by an event before: only an undelete could,
    and a second delete contradicts nothing. A read without View All may have shown it as deleted."""
    LATE_EVENT = "late_event"
    """An event was committed over a minute before one of the record that came earlier: a second copy of one that was
    never landed, or the org's clock went back. What is newer, the stream does not tell."""
    UNDECODABLE_PAYLOAD = "undecodable_payload"
    """The event's body cannot be read."""
    UNKNOWN_CHANGE_TYPE = "unknown_change_type"
    """A change type this package does not know, or whose content Salesforce does not document."""
    LOST_CHECKPOINT = "lost_checkpoint"
    """The stream's checkpoint was refused, or the org changed."""
    MISSED_EVENTS = "missed_events"
    """Changes of the entity may have raised no event for a while: it was off its channel, or a filter was set."""
    OFF_CHANNEL = "off_channel"
    """The channel does not carry the entity any more, so its changes raise no event. It is read again when it is
    back."""
    MISSING_VALUE = "missing_value"
    """An event says that a field changed, but not to what: the name of a person account, a list of preferences whose
    group is not known, a time from about when the field's type changed. What the event does tell is applied; what
    follows waits."""
    SILENT_CHANGE = "silent_change"
    """An event of another record has changed this one too, or a read shows the record as of later than an event that
    came after the read. The first: the contact of an account that became a person, or the loser of a merge, whose own
    event says no more than that it is deleted. The second: which of the two is newer, only another read shows."""
    NEW_FIELD = "new_field"
    """A field appeared that records may have had values in before any event reported it."""
    RETYPED_FIELD = "retyped_field"
    """A field's type, length or scale was changed, which may change values without an event."""
    STALE_SNAPSHOT = "stale_snapshot"
    """A snapshot showed the record as it was before its last event, or not at all though the event says it is there."""
    UNREADABLE_ROW = "unreadable_row"
    """A snapshot's row of the record holds a value that is none of its field's type."""
    VANISHED = "vanished"
    """A read of the org shows so many fewer records that it is not believed. A person accepts it, or a later read is
    believed."""
    VIEW_ALL_MISSING = "view_all_missing"
    """The entity is to be read, and the user is known not to be shown all its records. Its events go on until a
    snapshot is needed for them."""
    NOT_READABLE = "not_readable"
    """The org does not let the user read the entity. Then its events do not come either, so it is read whole when that
    has ended."""
    OTHER_CHANNEL = "other_channel"
    """Another channel than before feeds the entity from this position on, or polls do. Nothing is in doubt: the
    snapshot at this position is what ends it, and the entry says when that was."""
    DRIFT = "drift"
    """An audit found the row to differ from the org, or an enriched event carried another value than the row has."""


REASON_OF_CHANGE_TYPE: dict[str, Reason] = {
    "GAP_CREATE": Reason.GAP_CREATE,
    "GAP_UPDATE": Reason.GAP_UPDATE,
    "GAP_DELETE": Reason.GAP_DELETE,
    "GAP_UNDELETE": Reason.GAP_UNDELETE,
    "GAP_OVERFLOW": Reason.GAP_OVERFLOW,
    "SNAPSHOT": Reason.UNKNOWN_CHANGE_TYPE,
    "UNKNOWN": Reason.UNKNOWN_CHANGE_TYPE,
    UNDECODABLE: Reason.UNDECODABLE_PAYLOAD,
}
"""Change types that say something happened but not what."""


@dataclass(frozen=True)
class NewSuspect:
    """A record that became suspect (`*`: the entity), why, and at which position."""

    record_id: str
    reason: Reason
    position: int
    detail: str | None


SUSPECTS = pl.Schema(
    [
        ("record_id", pl.String()),
        ("reason", pl.String()),
        ("position", pl.Int64()),
        ("commit_timestamp", pl.Datetime("us", "UTC")),
        ("detail", pl.String()),
    ]
)
"""One row for each record that became suspect: why, at which event, and what the error said."""
NO_SUSPECTS = pl.DataFrame(schema=SUSPECTS)
"""What most batches have of them; made once, as frames never change."""
