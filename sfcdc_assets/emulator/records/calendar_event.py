"""Calendar events with invitees, and series of them (Change Data Capture Developer Guide, "Change Events for Tasks and
Events").

* Who is invited has an EventRelation; a user who is has a child event too, the event's copy in the own calendar.
* A series is a master event (GroupEventType 3) and an event for each occurrence, all with the series' id and pattern.
  Who is invited to the master is invited to each occurrence.
* What changes an event changes the copies of it; what changes a master changes its occurrences. A change of the pattern
  or of the start deletes the series and makes another one, with its invitations.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from dateutil.rrule import rrulestr

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import datetime_text, parse_datetime

if TYPE_CHECKING:
    from sfcdc_assets.emulator.records.dml import Dml
    from sfcdc_assets.emulator.records.identity_map import IdentityMap

MOST_OCCURRENCES = 400
"""Of one series; a pattern with more, or without an end, is refused."""
PATTERN = "Recurrence2PatternText"
_SERIES = "ActivityRecurrence2Id"
_SERIES_PREFIX = "828"
_SINGLE, _GROUP, _MASTER = "0", "1", "3"
_MINUTE = 60_000
_OF_THE_SERIES = frozenset({PATTERN, "ActivityDateTime"})
"""A change of these is one of the whole series, which is made again."""
_COPIED = (
    "WhoId", "WhatId", "Subject", "Location", "IsAllDayEvent", "ActivityDateTime", "ActivityDate", "DurationInMinutes",
    "Description", "Type", "IsPrivate", "ShowAs",
)  # fmt: skip
"""What a child event or an occurrence has of its event."""


def given_times(values: Mapping[str, object], known_start: StoredValue = None) -> dict[str, object]:
    """Return the values of an event with its start and end as they are kept: ActivityDateTime, ActivityDate and
    DurationInMinutes. Raises RecordError for an end that is none, or before the start."""
    given = dict(values)
    start, end = given.pop("StartDateTime", None), given.pop("EndDateTime", None)
    if start is not None:
        given.setdefault("ActivityDateTime", start)
    moment = _moment(given.get("ActivityDateTime"))
    if moment is not None:
        given.setdefault("ActivityDate", datetime_text(moment, "")[:10])
    if end is not None:
        begin, finish = _moment(known_start) if moment is None else moment, _moment(end)
        if begin is None or finish is None or finish < begin:
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", "the event ends before it starts", ("EndDateTime",))
        given.setdefault("DurationInMinutes", (finish - begin) // _MINUTE)
    return given


def created_values(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a new event as they are kept. Raises RecordError for a pattern that is none."""
    given = given_times(values)
    if given.get(PATTERN) is not None:
        _occurrences(given.get(PATTERN), _moment(given.get("ActivityDateTime")))
    return given


def updated_values(event: Mapping[str, StoredValue], values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of an event that is there, as they are kept. Raises RecordError too where a single event is
    given a pattern."""
    given = given_times(values, event["ActivityDateTime"])
    if event["GroupEventType"] == _MASTER:
        pattern, moment = given.get(PATTERN, event[PATTERN]), given.get("ActivityDateTime", event["ActivityDateTime"])
        _occurrences(pattern, _moment(moment))
    elif given.get(PATTERN, event[PATTERN]) != event[PATTERN]:
        message = "a series is made when its event is created, and changed by its master"
        raise RecordError("FIELD_INTEGRITY_EXCEPTION", message, (PATTERN,))
    return given


def after_create(work: Dml, event_id: str) -> None:
    """Make the series of a new event that has a pattern. Raises RecordError for a pattern that is none."""
    event = work.live_record("Event", event_id)
    if event[PATTERN] is None:
        return
    starts = _occurrences(event[PATTERN], _moment(event["ActivityDateTime"]))
    series = to_18(_SERIES_PREFIX + event_id[3:15])
    recurring: dict[str, StoredValue] = {PATTERN: event[PATTERN], "Recurrence2PatternVersion": "1", _SERIES: series}
    work.set_read_only("Event", event_id, {**recurring, "GroupEventType": _MASTER}, touch=False)
    for start in starts:
        values = {**_copied(event), "ActivityDateTime": start, "ActivityDate": datetime_text(start, "")[:10]}
        occurrence = work.create("Event", {**values, "OwnerId": event["OwnerId"]})
        work.set_read_only("Event", occurrence, recurring, touch=False)


def before_invite(work: Dml, values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a new EventRelation that invites somebody, whose child events are made first; others are as
    they are."""
    event_id, invitee = values.get("EventId"), values.get("RelationId")
    if values.get("IsWhat") or values.get("IsParent") or not isinstance(event_id, str) or not isinstance(invitee, str):
        return dict(values)
    event = work.live_record("Event", event_id)
    if event["GroupEventType"] == _MASTER:
        for occurrence in _members(work, event):
            if occurrence["GroupEventType"] != _MASTER and not occurrence["IsChild"]:
                work.create("EventRelation", {**values, "EventId": occurrence["Id"]})
    else:
        work.set_read_only("Event", str(event["Id"]), {"GroupEventType": _GROUP, "IsGroupEvent": True})
        if invitee.startswith("005"):
            child = work.create("Event", {**_copied(event), "OwnerId": invitee})
            of_child: dict[str, StoredValue] = {"IsChild": True, "IsGroupEvent": True, "GroupEventType": _GROUP}
            of_series = {name: event[name] for name in (PATTERN, "Recurrence2PatternVersion", _SERIES)}
            work.set_read_only("Event", child, {**of_child, **of_series}, touch=False)
            work.add_child_event(str(event["Id"]), child)
    return {**values, "IsInvitee": True}


def is_rescheduled(event: Mapping[str, StoredValue], given: Mapping[str, StoredValue]) -> bool:
    """Return whether a change of a master makes another series of it. `given` are stored values."""
    is_other = any(given.get(name, event[name]) != event[name] for name in _OF_THE_SERIES)
    return event["GroupEventType"] == _MASTER and is_other


def reschedule(work: Dml, master_id: str, values: Mapping[str, StoredValue]) -> str:
    """Delete a series and make it again with other values; the id of the new master, which has the same invitees."""
    master = work.live_record("Event", master_id)
    invitees = [
        work.live_record("EventRelation", each)["RelationId"] for each in _relations(work, master_id)
    ]  # fmt: skip
    work.delete("Event", master_id)
    kept = {**_copied(master), PATTERN: master[PATTERN], "OwnerId": master["OwnerId"]}
    new = work.create("Event", {**kept, **values})
    for invitee in invitees:
        work.create("EventRelation", {"EventId": new, "RelationId": invitee})
    return new


def after_update(work: Dml, event_id: str, names: set[str]) -> None:
    """Give the copies of an event, and the occurrences of a series, what was just set on it."""
    event = work.live_record("Event", event_id)
    changed = {name: event[name] for name in _COPIED if name in names}
    if not changed or event["IsChild"]:
        return
    others = [str(each["Id"]) for each in _members(work, event)] if event["GroupEventType"] == _MASTER else []
    for other in others or work.child_events(event_id):
        if other != event_id:
            work.set_read_only("Event", other, changed)


def after_delete(work: Dml, event: Mapping[str, StoredValue]) -> None:
    """Delete what goes with an event: its series if it is a master, the child events and the invitations."""
    event_id = str(event["Id"])
    gone = [str(each["Id"]) for each in _members(work, event)] if event["GroupEventType"] == _MASTER else []
    for each in (*gone, *(work.child_events(event_id) if not event["IsChild"] else ())):
        if work.is_live("Event", each):
            work.delete_with(event_id, "Event", each)
    for relation in _relations(work, event_id):
        work.delete_with(event_id, "EventRelation", relation)


def after_uninvite(work: Dml, relation: Mapping[str, StoredValue]) -> None:
    """Delete what an invitation has brought: the child event, or the invitations to the occurrences of a series."""
    event_id, invitee = str(relation["EventId"]), relation["RelationId"]
    if not work.is_live("Event", event_id):
        return
    event = work.live_record("Event", event_id)
    for child in work.child_events(event_id):
        if work.live_record("Event", child)["OwnerId"] == invitee:
            work.delete("Event", child)
    for member in _members(work, event) if event["GroupEventType"] == _MASTER else ():
        for other in _relations(work, str(member["Id"])):
            if work.live_record("EventRelation", other)["RelationId"] == invitee:
                work.delete("EventRelation", other)


def _relations(work: IdentityMap, event_id: str) -> list[str]:
    return work.referring_ids("EventRelation", "EventId", event_id) if work.knows("EventRelation") else []


def _members(work: IdentityMap, event: Mapping[str, StoredValue]) -> list[Mapping[str, StoredValue]]:
    """All live events of the series, the master too."""
    ids = work.referring_ids("Event", _SERIES, str(event[_SERIES])) if event[_SERIES] else []
    return [work.live_record("Event", each) for each in ids]


def _copied(event: Mapping[str, StoredValue]) -> dict[str, object]:
    return {name: event[name] for name in _COPIED if event[name] is not None}


def _occurrences(pattern: object, first: int | None) -> list[int]:
    """Return when the occurrences start, epoch ms."""
    if first is None:
        raise RecordError("REQUIRED_FIELD_MISSING", "A series needs a start: [StartDateTime]", ("StartDateTime",))
    start = datetime.fromtimestamp(first // 1000, UTC)
    try:
        # Everything but the rule itself (EXDATE, a DTSTART of its own) is of the vendor's newer versions.
        rule = rrulestr(str(pattern).removeprefix("RRULE:"), dtstart=start)
        found = list(islice(rule, MOST_OCCURRENCES + 1))
    except (ValueError, TypeError) as error:
        raise RecordError("FIELD_INTEGRITY_EXCEPTION", f"{PATTERN} is no RRULE: {error}", (PATTERN,)) from None
    if not 1 <= len(found) <= MOST_OCCURRENCES:
        raise RecordError("FIELD_INTEGRITY_EXCEPTION", f"a series has 1 to {MOST_OCCURRENCES} occurrences", (PATTERN,))
    return [int(each.timestamp()) * 1000 for each in found]


def _moment(value: object) -> int | None:
    """Epoch ms of a datetime as clients give it; what is none is refused where it is stored."""
    if isinstance(value, str):
        try:
            return parse_datetime(value.strip())
        except (ValueError, OverflowError):
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
