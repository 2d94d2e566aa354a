"""Calendar events with invitees, and series of them, as the guide has them (Change Data Capture Developer Guide,
"Change Events for Tasks and Events")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg

WEEKLY = "RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=MO;COUNT=3"
PLANNING = {"Subject": "Planning", "StartDateTime": "2025-03-03T19:00:00Z", "EndDateTime": "2025-03-03T20:00:00Z"}


@pytest.fixture
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), objects=[*built_in_definitions(), *stock_definitions()])
    yield org
    org.close()


def user(org: EmulatedOrg) -> str:
    with org.transaction() as work:
        return work.create(
            "User", {"Username": "a@b.de", "LastName": "A", "Email": "a@b.de", "Alias": "a", "TimeZoneSidKey": "GMT"}
        )


def create(org: EmulatedOrg, *invitees: str, **values: object) -> str:
    with org.transaction() as work:
        event = work.create("Event", {**PLANNING, **values})
        for invitee in invitees:
            work.create("EventRelation", {"EventId": event, "RelationId": invitee})
    return event


def live(org: EmulatedOrg) -> Counter[tuple[object, object]]:
    """Live events by GroupEventType and IsChild."""
    return Counter((each["GroupEventType"], each["IsChild"]) for each in org.records("Event"))


def test_start_and_end_are_kept_as_moment_and_duration(org: EmulatedOrg) -> None:
    record = org.record("Event", create(org)) or {}
    assert (record["ActivityDate"], record["DurationInMinutes"]) == ("2025-03-03", 60)
    assert record["EndDateTime"] == record["StartDateTime"] + 3_600_000  # type: ignore[operator]
    with pytest.raises(RecordError, match="ends before it starts"):
        create(org, EndDateTime="2025-03-03T18:00:00Z")


def test_a_user_who_is_invited_has_a_child_event_and_a_contact_has_none(org: EmulatedOrg) -> None:
    with org.transaction() as work:
        contact = work.create("Contact", {"LastName": "C"})
    guest = user(org)
    event = create(org, guest, contact)
    assert live(org) == {("1", False): 1, ("1", True): 1}
    (child,) = (each for each in org.records("Event") if each["IsChild"])
    assert (child["OwnerId"], child["Subject"]) == (guest, "Planning")
    assert [each["EventId"] for each in org.records("EventRelation")] == [event, event]
    with org.transaction() as work:
        work.update("Event", event, {"Location": "Orcas Room"})
    (change,) = list(org.transactions())[-1].changes[:1]
    assert {each["Location"] for each in org.records("Event")} == {"Orcas Room"}
    assert change.record_id == event
    with org.transaction() as work:
        work.delete("Event", event)
    assert (org.count("Event"), org.count("EventRelation")) == (0, 0)
    with org.transaction() as work:
        work.undelete("Event", event)
    assert (org.count("Event"), org.count("EventRelation")) == (2, 2)


def test_a_series_has_a_master_and_an_event_an_occurrence(org: EmulatedOrg) -> None:
    guest = user(org)
    master = create(org, guest, Recurrence2PatternText=WEEKLY)
    assert live(org) == {("3", False): 1, ("1", False): 3, ("1", True): 3}
    days = sorted({str(each["ActivityDate"]) for each in org.records("Event")})
    assert days == ["2025-03-03", "2025-03-10", "2025-03-17"]
    assert {each["Recurrence2PatternText"] for each in org.records("Event")} == {WEEKLY}
    assert len({each["ActivityRecurrence2Id"] for each in org.records("Event")}) == 1
    assert org.count("EventRelation") == 4
    with org.transaction() as work:
        work.update("Event", master, {"Subject": "Review"})
    assert {each["Subject"] for each in org.records("Event")} == {"Review"}
    with org.transaction() as work:
        work.delete("Event", master)
    assert (org.count("Event"), org.count("EventRelation")) == (0, 0)


@pytest.mark.parametrize(
    "change", [{"StartDateTime": "2025-03-04T19:00:00Z"}, {"Recurrence2PatternText": "RRULE:FREQ=DAILY;COUNT=3"}]
)
def test_a_critical_change_deletes_a_series_and_makes_it_again(org: EmulatedOrg, change: dict[str, str]) -> None:
    master = create(org, user(org), Recurrence2PatternText=WEEKLY)
    before = {str(each["Id"]) for each in org.records("Event")}
    with org.transaction() as work:
        work.update("Event", master, change)
    after = {str(each["Id"]) for each in org.records("Event")}
    assert not before & after
    assert live(org) == {("3", False): 1, ("1", False): 3, ("1", True): 3}
    assert org.count("EventRelation") == 4
    kinds = Counter((each.entity, each.change_type) for each in list(org.transactions())[-1].changes)
    assert kinds == {
        ("Event", "DELETE"): 7, ("Event", "CREATE"): 7, ("EventRelation", "DELETE"): 4, ("EventRelation", "CREATE"): 4,
    }  # fmt: skip


def test_an_end_alone_is_another_duration(org: EmulatedOrg) -> None:
    event = create(org)
    with org.transaction() as work:
        work.update("Event", event, {"EndDateTime": "2025-03-03T19:30:00Z"})
    assert (org.record("Event", event) or {})["DurationInMinutes"] == 30


def test_who_is_invited_no_more_loses_the_child_events(org: EmulatedOrg) -> None:
    guest = user(org)
    master = create(org, guest, Recurrence2PatternText=WEEKLY)
    (relation,) = (str(each["Id"]) for each in org.records("EventRelation") if each["EventId"] == master)
    with org.transaction() as work:
        work.delete("EventRelation", relation)
    assert live(org) == {("3", False): 1, ("1", False): 3}
    assert org.count("EventRelation") == 0


@pytest.mark.parametrize(
    "refused",
    [
        lambda work, single, master: work.update("Event", single, {"Recurrence2PatternText": WEEKLY}),
        lambda work, single, master: work.update("Event", master, {"Recurrence2PatternText": "never"}),
        lambda work, single, master: work.update(
            "Event", master, {"StartDateTime": "2025-03-04T19:00:00Z", "ShowAs": "Asleep"}
        ),
        lambda work, single, master: work.create("Event", {**PLANNING, "Recurrence2PatternText": "RRULE:FREQ=DAILY"}),
        lambda work, single, master: work.create(
            "EventRelation", {"EventId": single, "RelationId": work.user_id, "Status": "Perhaps"}
        ),
    ],
)
def test_what_is_refused_has_written_nothing(org: EmulatedOrg, refused: Callable[..., object]) -> None:
    single, master = create(org), create(org, Recurrence2PatternText=WEEKLY)
    before, number = list(org.records("Event")), org.last_commit_number
    with org.transaction() as work, pytest.raises(RecordError):
        refused(work, single, master)
    assert list(org.records("Event")) == before
    assert org.last_commit_number == number


@pytest.mark.parametrize("pattern", ["every Monday", "RRULE:FREQ=DAILY", "RRULE:FREQ=DAILY;COUNT=401"])
def test_a_pattern_that_is_none_or_has_no_end_is_refused(org: EmulatedOrg, pattern: str) -> None:
    with pytest.raises(RecordError, match=r"RRULE|occurrences"):
        create(org, Recurrence2PatternText=pattern)
    assert org.count("Event") == 0
