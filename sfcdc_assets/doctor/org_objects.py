"""Every object of an org: how large it is and how much it changes, which way it is fed or could be, what that costs,
and which objects deserve the few places among change events and PushTopics.

What is asked grows with the number of objects that have records, five in a request: their changes of the last 24 hours
are counted, and an object that cannot be read says so in the org's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.polls.cost import requests_a_day, requests_of_parents, requests_to_compare
from sfcdc_assets.polls.cursor import soql_time
from sfcdc_assets.polls.known_objects import is_written_once, known_object
from sfcdc_assets.polls.polled_objects import PollSettings
from sfcdc_assets.polls.readability import refusal_by_name
from sfcdc_assets.polls.stamp import Stamp
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.channel_members import change_event_of
from sfcdc_assets.salesforce.composite_query import MOST_QUERIES, counts
from sfcdc_assets.salesforce.describe import ObjectSummary, change_event_schema, objects
from sfcdc_assets.salesforce.errors import QueryRefused, RequestRefused
from sfcdc_assets.salesforce.object_description import STAMPS
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.settings.channel_kinds import POLLED, is_polled
from sfcdc_assets.settings.settings import Settings

SELECTABLE = 5
"""Objects that may be selected for change events without an add-on (Change Data Capture Developer Guide,
"Allocations")."""
MOST_ASKED_FOR_EVENTS = 20
"""Objects that the org is asked about, whether they can have change events: those with the most changes."""
TOPICS_BY_EDITION = {"Unlimited Edition": 100, "Performance Edition": 100, "Enterprise Edition": 50}
TOPICS = 40
"""PushTopics of an org of any other edition (Streaming API Developer Guide, "PushTopic Streaming Allocations")."""
WITH_PUSH_TOPICS = frozenset(
    {
        "Account",
        "Campaign",
        "Case",
        "Contact",
        "ContractLineItem",
        "Entitlement",
        "Lead",
        "LiveChatTranscript",
        "MessagingSession",
        "Opportunity",
        "Quote",
        "QuoteLineItem",
        "ServiceAppointment",
        "ServiceContract",
        "Task",
        "UserServicePresence",
        "WorkOrder",
        "WorkOrderLineItem",
    }
)
"""Standard objects that a PushTopic may query, beside all custom ones (same guide, "Supported PushTopic Queries")."""
_A_DAY = timedelta(days=1)
_NO_SUCH_FIELD = "INVALID_FIELD"
_EVENTS = ("ChangeEvent", "__e")


@dataclass(frozen=True)
class OrgObject:
    """One object. `rows`: about how many records it has, `changes`: records that were changed within the last 24 hours;
    None where that is not known. `fed_by`: the channel that feeds it by the settings of today, or that of polls; None.
    `why_not`: why it cannot be polled. `requests`: what polling it takes of the org's day. `deserves_events`,
    `live_topic`: it is among those that change events, or a PushTopic, would serve best."""

    entity: str
    rows: int | None = None
    changes: int | None = None
    fed_by: str | None = None
    why_not: str | None = None
    requests: float | None = None
    deserves_events: bool = False
    live_topic: bool = False
    is_compared: bool = False
    """No stamp tells what changed, so polling compares its records as a whole, about once a day."""


@dataclass(frozen=True)
class OrgObjects:
    """All of them, those that change most first; how many requests it took to find out; how many PushTopics the org
    may have; and what could not be found out, and why."""

    objects: tuple[OrgObject, ...]
    spent: int
    topics: int
    remarks: tuple[str, ...] = ()

    @property
    def requests(self) -> float:
        """What polling those takes of the org's day that are polled by the settings of today."""
        return sum(each.requests or 0 for each in self.objects if each.fed_by == POLLED)

    @property
    def for_events(self) -> tuple[str, ...]:
        """The objects that deserve change events, those that change most first."""
        return tuple(each.entity for each in self.objects if each.deserves_events)


@dataclass
class _Survey:
    """What has been found out so far."""

    rows: Mapping[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unstamped: set[str] = field(default_factory=set)
    """Objects that can be filtered by no stamp, or are read through their parents."""
    changes_unstamped: set[str] = field(default_factory=set)
    """Objects whose records change without the stamp that they can be filtered by."""
    remarks: list[str] = field(default_factory=list)


def org_objects(
    org: OrgConnection, settings: Settings, tell: Callable[[str, int, int], object] = lambda *_: None
) -> OrgObjects:
    """Find out about every object that the user sees. `tell` is given what is being done, and how far it is.

    Raises what the org refuses of the list of objects; what it refuses beside that is a remark.
    """
    began, survey = org.session.calls, _Survey()
    summaries = [each for each in objects(org.session) if not each.name.endswith(_EVENTS)]
    survey.rows = _rows(org, [each.name for each in summaries], survey)
    fed = _fed_by(org, settings, survey)
    _count_changes(org, [each for each in summaries if _may_change(each, survey)], survey, tell)
    found = sorted((_object(each, survey, fed, org.poll) for each in summaries), key=_most_changes_first)
    events = _with_events(org, found, tell)
    topics = _topics(org)
    live = [each.entity for each in found if each.entity not in events and _may_have_topic(each)][:topics]
    marked = (replace(each, deserves_events=each.entity in events, live_topic=each.entity in live) for each in found)
    return OrgObjects(tuple(marked), org.session.calls - began, topics, tuple(survey.remarks))


def _rows(org: OrgConnection, entities: Sequence[str], survey: _Survey) -> Mapping[str, int]:
    found = org.record_counts(entities)
    if not found:
        survey.remarks.append(
            "The org does not say how many records its objects have: the user lacks View Setup and Configuration."
        )
    return found


def _fed_by(org: OrgConnection, settings: Settings, survey: _Survey) -> dict[str, str]:
    """Entity -> the channel that feeds it: the first of the settings, as for copies."""
    found: dict[str, str] = {}
    for channel in settings.feeding_channels:
        try:
            members = org.members(channel)
        except RequestRefused as refused:
            survey.remarks.append(f"{channel}: which objects it feeds is not known: {refused}")
            continue
        if members is None:
            survey.remarks.append(f"{channel}: the org does not list its objects for this user.")
        for entity in members.entities if members else ():
            found.setdefault(entity, channel)
    return found


def _may_change(summary: ObjectSummary, survey: _Survey) -> bool:
    """Return whether there is anything to count: what the org has no record of has not changed. Companions are not
    among the counts of records."""
    is_empty = summary.companion_of is None and bool(survey.rows) and not survey.rows.get(summary.name, 1)
    return summary.queryable and not is_empty and refusal_by_name(summary.name) is None


def _count_changes(
    org: OrgConnection, summaries: Sequence[ObjectSummary], survey: _Survey, tell: Callable[[str, int, int], object]
) -> None:
    """Count the records that were changed within a day, by the best stamp that each object can be asked by."""
    since = soql_time(clock.now() - _A_DAY)
    survey.unstamped |= {each.name for each in summaries if known_object(each.name).parent is not None}
    left, done = [each.name for each in summaries if each.name not in survey.unstamped], 0
    for stamp in STAMPS:
        refused: dict[str, str] = {}
        for start in range(0, len(left), MOST_QUERIES):
            some = left[start : start + MOST_QUERIES]
            answers = counts(org.session, [f"SELECT COUNT() FROM {each} WHERE {stamp} >= {since}" for each in some])
            for entity, answer in zip(some, answers, strict=True):
                if isinstance(answer, int):
                    survey.changes[entity] = answer
                    if not (Stamp(stamp).moves or is_written_once(entity)):
                        survey.changes_unstamped.add(entity)
                elif isinstance(answer, QueryRefused) and answer.error_code == _NO_SUCH_FIELD:
                    refused[entity] = answer.message
                else:
                    survey.refused[entity] = _words(answer)
            done += len(some)
            tell("counting changes", len(survey.changes) + len(survey.refused), len(summaries))
        left = list(refused)
    survey.unstamped |= set(left)


def _words(error: Exception) -> str:
    return error.message if isinstance(error, QueryRefused) else str(error)


def _object(summary: ObjectSummary, survey: _Survey, fed: Mapping[str, str], poll: PollSettings) -> OrgObject:
    name = summary.name
    rows = survey.rows.get(name)
    changes = survey.changes.get(name)
    if changes is None and rows == 0:
        changes = 0
    why_not = survey.refused.get(name)
    if not summary.queryable:
        why_not = "the org does not let it be queried"
    elif (refusal := refusal_by_name(name)) is not None:
        why_not = refusal.reason
    is_compared, requests = why_not is None and name in survey.unstamped, None
    if is_compared:
        requests = _requests_to_compare(name, survey, poll)
    elif why_not is None and changes is not None:
        requests = requests_a_day(changes, poll.seconds_of(name))
        if name in survey.changes_unstamped or known_object(name).unstamped:
            requests += _requests_to_compare(name, survey, poll)
    return OrgObject(name, rows, changes, fed.get(name), why_not, requests, is_compared=is_compared)


def _requests_to_compare(name: str, survey: _Survey, poll: PollSettings) -> float:
    hours, parent = poll.reread_seconds_of(name) / 3600, known_object(name).parent
    if parent is not None:
        return requests_of_parents(survey.rows.get(parent.parent, 0), hours)
    return requests_to_compare(survey.rows.get(name, 0), hours)


def _most_changes_first(each: OrgObject) -> tuple[int, int, str]:
    return -(each.changes or 0), -(each.rows or 0), each.entity


def _with_events(
    org: OrgConnection, found: Iterable[OrgObject], tell: Callable[[str, int, int], object]
) -> frozenset[str]:
    """Return the objects that change events would serve best: those that change most, of those that can have them."""
    events: list[str] = []
    candidates = [each.entity for each in found if each.changes][:MOST_ASKED_FOR_EVENTS]
    for entity in candidates:
        if len(events) == SELECTABLE:
            break
        tell("looking for change events", len(events), SELECTABLE)
        if change_event_schema(org.session, change_event_of(entity)) is not None:
            events.append(entity)
    return frozenset(events)


def _may_have_topic(each: OrgObject) -> bool:
    has_topics = each.entity in WITH_PUSH_TOPICS or each.entity.endswith("__c")
    return has_topics and bool(each.changes) and (each.fed_by is None or is_polled(each.fed_by))


def _topics(org: OrgConnection) -> int:
    """Return how many PushTopics the org may have."""
    try:
        rows = list(query_rows(org.session, "SELECT OrganizationType FROM Organization"))
    except RequestRefused:
        return TOPICS
    return topics_of(str(rows[0].get("OrganizationType")) if rows else "")


def topics_of(edition: str) -> int:
    """Return how many PushTopics an org of an edition may have."""
    return TOPICS_BY_EDITION.get(edition, TOPICS)
