"""A record's field history folded back: certain is what its rows prove, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.salesforce.record_id import to_18_characters
from sfcdc_assets.timeline.field_history import HistoryRow, Why
from sfcdc_assets.timeline.past_versions import FirstVersion, Folded, PastVersion, fold_history

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANN, BOB, CIM = (to_18_characters(f"005xx000001Sv{name}A") for name in "ABC")
COLUMNS = (
    ID_COLUMN,
    Column("Name", ColumnType.STRING, shape=(80, 0, 0)),
    Column("StageName", ColumnType.STRING, salesforce_type="picklist", shape=(255, 0, 0)),
    Column("Amount", ColumnType.DOUBLE, salesforce_type="currency", shape=(0, 18, 2)),
    Column("Active__c", ColumnType.BOOLEAN, salesforce_type="boolean"),
    Column("Count__c", ColumnType.INT, salesforce_type="int"),
    Column("CloseDate", ColumnType.DATE, salesforce_type="date"),
    Column("Seen__c", ColumnType.TIMESTAMP, salesforce_type="datetime"),
    Column("OwnerId", ColumnType.STRING, salesforce_type="reference", shape=(18, 0, 0)),
    Column("Partner__c", ColumnType.STRING, salesforce_type="reference", shape=(18, 0, 0)),
    Column("Tags__c", ColumnType.STRING, salesforce_type="multipicklist", shape=(4099, 0, 0)),
    Column("Notes__c", ColumnType.STRING, large_text=True, salesforce_type="textarea", shape=(32000, 0, 0)),
    Column("Street__c", ColumnType.STRING, salesforce_type="textarea", shape=(500, 0, 0)),
    Column("Leaky__c", ColumnType.STRING, shape=(80, 0, 0)),
    Column("CreatedDate", ColumnType.TIMESTAMP, salesforce_type="datetime"),
    Column("CreatedById", ColumnType.STRING, salesforce_type="reference", shape=(18, 0, 0)),
)
BY_NAME = {column.name: column for column in COLUMNS}
LOOKUPS = ("OwnerId", "Partner__c")
VALUELESS = ("Tags__c", "Notes__c", "Street__c")
SYSTEM = ("Id", "CreatedDate", "CreatedById")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def row(seconds: float, name: str, old: Any, new: Any, **more: Any) -> HistoryRow:
    number = f"{name}{old}{new}{seconds}"
    return HistoryRow(**{"id": number, "field": name, "old": old, "new": new, "created_date": at(seconds), **more})


def first_version(seconds: float = 100, **values: Any) -> FirstVersion:
    known = {"Id": "001", "CreatedDate": T0, "CreatedById": ANN}
    return FirstVersion({**dict.fromkeys(BY_NAME), **known, **values}, at(seconds))


def folded(first: FirstVersion, *rows: HistoryRow, since: float | None = None, of: Sequence[str] = ()) -> Folded:
    """`since`: when the tracking of the fields `of` began, by default of those that the rows name."""
    names = of or {each.field for each in rows}
    tracked = {} if since is None else {name: at(since) for name in names if name in BY_NAME}
    return fold_history(COLUMNS, first, rows, tracked)


def spans(found: Folded, name: str) -> list[tuple[float, float, Any]]:
    """The times in which a column's value is certain, versions of the same value as one."""
    times: list[tuple[float, float, Any]] = []
    for version in found.versions:
        if name in version.values:
            start, stop = ((moment - T0).total_seconds() for moment in (version.valid_from, version.valid_to))
            value = version.values[name]
            if times and times[-1][1:] == (start, value):
                start = times.pop()[0]
            times.append((start, stop, value))
    return times


def misfits(found: Folded) -> list[tuple[str, Why]]:
    return [(each.field, each.why) for each in found.misfits]


def test_values_between_two_rows_that_agree_are_certain_and_before_the_first_only_if_the_field_was_tracked() -> None:
    rows = (row(10, "Name", "a", "b"), row(20, "Name", "b", "c"))
    assert spans(folded(first_version(Name="c"), *rows), "Name") == [(10, 20, "b"), (20, 100, "c")]
    tracked = folded(first_version(Name="c"), *rows, since=0)
    assert spans(tracked, "Name") == [(0, 10, "a"), (10, 20, "b"), (20, 100, "c")]
    assert spans(folded(first_version(Name="c"), *rows, since=5), "Name")[0] == (5, 10, "a")
    assert not misfits(tracked)


def test_versions_follow_one_another_from_the_creation_to_the_first_known_one() -> None:
    found = folded(
        first_version(Name="c"),
        row(20, "Name", "b", "c", created_by_id=BOB),
        row(10, "Name", "a", "b", created_by_id=ANN),
        row(20, "Amount", None, 2.5, created_by_id=BOB),
        since=5,
    )
    kinds = [(each.change_type, each.changed_fields, each.commit_user) for each in found.versions]
    assert kinds == [
        ("CREATE", None, ANN),
        ("UNKNOWN", None, None),
        ("UPDATE", ("Name",), ANN),
        ("UPDATE", ("Amount", "Name"), BOB),
    ]
    starts = [each.valid_from for each in found.versions]
    assert starts == [at(0), at(5), at(10), at(20)]
    assert [each.valid_to for each in found.versions] == [*starts[1:], at(100)]


def test_a_field_without_a_row_is_certain_only_as_long_as_it_was_tracked() -> None:
    found = folded(first_version(Name="c", Amount=1.0), row(10, "Name", "a", "c"), since=0, of=["Name", "Amount"])
    assert spans(found, "Amount") == [(0, 100, 1.0)]
    assert spans(folded(first_version(Name="c", Amount=1.0), row(10, "Name", "a", "c")), "Amount") == []


def test_what_a_row_leads_to_is_certain_up_to_something_unknown_only_if_the_field_was_tracked() -> None:
    first = replace(first_version(), certain=["Amount", "CreatedDate"])
    found = [spans(folded(first, row(10, "Name", "a", "b"), since=since), "Name") for since in (5, 50)]
    assert found == [[(5, 10, "a"), (10, 100, "b")], []]


def test_a_value_that_does_not_fit_the_next_is_a_gap_and_refutes_that_the_field_was_tracked() -> None:
    rows = (row(10, "Name", "a", "b"), row(20, "Name", "x", "c"))
    found = folded(first_version(Name="c"), *rows, since=0)
    assert misfits(found) == [("Name", Why.GAP)]
    assert spans(found, "Name") == [(20, 100, "c")]
    later = folded(first_version(Name="c"), *rows, since=15)
    assert spans(later, "Name") == [(15, 20, "x"), (20, 100, "c")], "what was missed may be from before the tracking"
    ends_otherwise = folded(first_version(Name="other"), *rows, since=0)
    assert misfits(ends_otherwise) == [("Name", Why.GAP), ("Name", Why.GAP)]
    assert spans(ends_otherwise, "Name") == []


def test_rows_of_one_second_count_together_whatever_their_order() -> None:
    rows = [row(10, "Name", old, new) for old, new in (("b", "c"), ("a", "b"), ("c", "d"))]
    for _ in rows:
        rows = [*rows[1:], rows[0]]
        assert spans(folded(first_version(Name="d"), *rows, since=0), "Name") == [(0, 10, "a"), (10, 100, "d")]
    there_and_back = (row(10, "Name", "a", "b"), row(10, "Name", "b", "a"))
    found = folded(first_version(Name="b"), *there_and_back, since=0)
    assert spans(found, "Name") == [(10, 100, "b")], "where a round trip begins is not known"
    nowhere = folded(first_version(Name="b"), row(10, "Name", "a", "b"), row(10, "Name", "x", "y"), since=0)
    assert misfits(nowhere) == [("Name", Why.UNREADABLE)]
    apart = [row(10, "Name", old, new) for old, new in (("a", "b"), ("c", "d"), ("d", "c"))]
    assert misfits(folded(first_version(Name="b"), *apart, since=0)) == [("Name", Why.UNREADABLE)]


@pytest.mark.parametrize("first_at", [100, 100.4])
def test_rows_of_the_second_in_which_the_first_version_begins_prove_what_was_before_it(first_at: float) -> None:
    first = first_version(first_at, Name="b")
    assert spans(folded(first, row(100, "Name", "a", "b"), since=0), "Name") == [(0, first_at, "a")]
    younger = folded(first, row(100, "Name", "b", "c"), since=0)
    assert spans(younger, "Name") == [(0, first_at, "b")], "what was before the second was so whenever it changed in it"
    assert not misfits(younger)
    assert spans(folded(first, row(101, "Name", "b", "c"), since=0), "Name") == [(0, first_at, "b")]


def test_a_lookups_row_with_ids_counts_and_the_one_with_names_does_not() -> None:
    rows = (
        row(10, "Owner", "Ann", "Bob", data_type="Text"),
        row(10, "Owner", ANN[:15], BOB[:15], data_type="EntityId"),
    )
    for given_rows in (rows, [replace(rows[0], data_type=None), row(10, "Owner", ANN, BOB)]):
        found = folded(first_version(OwnerId=BOB), *given_rows, since=0, of=["OwnerId"])
        assert spans(found, "OwnerId") == [(0, 10, ANN), (10, 100, BOB)]
        assert not misfits(found)
    alone = folded(first_version(OwnerId=BOB), rows[0], since=0, of=["OwnerId"])
    assert misfits(alone) == [("OwnerId", Why.NO_ID)]
    assert spans(alone, "OwnerId") == [(10, 100, BOB)], "that it changed is known, and not to what"


def test_a_change_of_owner_may_be_called_after_what_did_it() -> None:
    assigned = row(10, "ownerAssignment", ANN, BOB, data_type="EntityId")
    for rows in ((assigned,), (assigned, row(10, "Owner", ANN, BOB, data_type="EntityId"))):
        found = folded(first_version(OwnerId=BOB), *rows, since=0, of=["OwnerId"])
        assert spans(found, "OwnerId") == [(0, 10, ANN), (10, 100, BOB)]


@pytest.mark.parametrize("name", VALUELESS)
def test_of_values_that_rows_do_not_have_only_the_last_is_certain(name: str) -> None:
    first = first_version(**{name: "now"})
    for values in ((None, None), ("before", "now")):
        found = folded(first, row(10, name, *values), since=0)
        assert spans(found, name) == [(10, 100, "now")]
        assert found.versions[-1].changed_fields == (name,), "that it changed is known"
    assert spans(folded(first, row(10, name, None, None)), name) == []


def test_what_is_no_change_of_a_field_makes_no_version_and_what_has_no_column_is_said() -> None:
    rows = (row(5, "feedEvent", None, None), row(6, "locked", None, None), row(7, "Gone__c", "a", "b"))
    found = folded(first_version(), *rows)
    assert [each.change_type for each in found.versions] == ["CREATE"]
    assert misfits(found) == [("Gone__c", Why.NO_COLUMN)]


def test_without_its_creation_a_record_has_no_version_before_its_oldest_row() -> None:
    first = FirstVersion({"Name": "c"}, at(100))
    rows = (row(10, "Name", "a", "b"), row(20, "Name", "b", "c"))
    assert [each.valid_from for each in folded(first, *rows, since=0).versions] == [at(10), at(20)]
    created = folded(first, *rows, row(3, "created", None, None), since=0)
    assert spans(created, "Name")[0] == (3, 10, "a")
    assert folded(first).versions == ()
    early = folded(first_version(Name="c"), *rows, row(-5, "Name", "z", "a"), since=0)
    assert misfits(early) == [("Name", Why.BEFORE_CREATION)]


def test_values_are_typed_as_the_columns_are() -> None:
    seen = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    first = first_version(Active__c=True, Count__c=2, Amount=2.5, CloseDate=date(2026, 1, 2), Seen__c=seen)
    rows = (
        row(10, "Active__c", "false", True),
        row(10, "Count__c", 1.0, "2"),
        row(10, "Amount", 1, 2.5),
        row(10, "CloseDate", "2026-01-01", "2026-01-02"),
        row(10, "Seen__c", None, "2026-01-02T03:04:05.000+0000"),
    )
    before = folded(first, *rows, since=0).versions[0].values
    expected = {"Active__c": False, "Count__c": 1, "Amount": 1.0, "CloseDate": date(2026, 1, 1), "Seen__c": None}
    assert {name: before[name] for name in expected} == expected
    assert type(before["Count__c"]) is int
    odd = folded(first, row(10, "Count__c", "many", 2), since=0)
    assert misfits(odd) == [("Count__c", Why.UNREADABLE)]


# -- any org's log

STATES: Mapping[str, st.SearchStrategy[Any]] = {
    "Name": st.sampled_from([None, "a", "b", "c"]),
    "StageName": st.sampled_from(["Open", "Won", "Lost"]),
    "Amount": st.sampled_from([None, 0.0, 1.5, 2.0]),
    "Active__c": st.booleans(),
    "Count__c": st.sampled_from([None, 1, 2]),
    "CloseDate": st.sampled_from([None, date(2026, 1, 1), date(2026, 1, 2)]),
    "Seen__c": st.sampled_from([None, T0, at(1)]),
    "OwnerId": st.sampled_from([ANN, BOB, CIM]),
    "Partner__c": st.sampled_from([None, ANN, BOB]),
    "Tags__c": st.sampled_from([None, "a", "a;b"]),
    "Notes__c": st.sampled_from([None, "x" * 300, "y"]),
    "Street__c": st.sampled_from([None, "x" * 300, "y"]),
}
NAMES = {ANN: "AlexanderHamilton1", BOB: "Bob", CIM: "ChristopherJon"}


@dataclass(frozen=True)
class Event:
    """A change that the org committed: when (seconds), and values."""

    time: float
    values: Mapping[str, Any]


@dataclass
class Org:
    """What an org did to a record, and which of it is in the rows of its field history."""

    values: dict[str, Any]
    log: list[Event]
    tracked_from: Mapping[str, float]
    horizon: float
    rows: list[HistoryRow] = field(default_factory=list)

    def state(self, time: float) -> dict[str, Any]:
        """After all that was committed before this time."""
        found = dict(self.values)
        for event in self.log:
            if event.time < time:
                found |= event.values
        return found


def json_forms(value: Any) -> st.SearchStrategy[Any]:
    """The forms in which a value may be in an answer."""
    if isinstance(value, bool):
        return st.sampled_from([value, str(value).lower()])
    if isinstance(value, int | float):
        return st.sampled_from([value, float(value), str(value)])
    if isinstance(value, datetime):
        return st.just(value.strftime("%Y-%m-%dT%H:%M:%S.000+0000"))
    return st.just(value.isoformat() if isinstance(value, date) else value)


@st.composite
def orgs(draw: st.DrawFn) -> Org:
    """Logs with many changes in one second, tracking that begins at some time, and rows that are gone by now."""
    moments = sorted(draw(st.lists(st.integers(0, 60), max_size=12)))
    tracked = {name: draw(st.sampled_from([0.0, 0.0, 3.5, 20.0, 99.0])) for name in [*STATES, "Leaky__c"]}
    org = Org({name: draw(values) for name, values in STATES.items()} | {"Leaky__c": "0"}, [], tracked, 0.0)
    org.horizon = draw(st.sampled_from([0.0, 0.0, 10.0]))
    has_types = draw(st.booleans())
    for number, moment in enumerate(moments, 1):
        time = moment + number / 100
        before = org.state(time)
        changed = draw(st.sets(st.sampled_from(list(STATES)), max_size=4))
        values = {name: draw(STATES[name]) for name in sorted(changed)}
        if draw(st.booleans()):
            values["Leaky__c"] = str(number)
        org.log.append(Event(time, values))
        user = draw(st.sampled_from([ANN, BOB]))
        for name, value in values.items():
            is_lost = name == "Leaky__c" and draw(st.booleans())
            if value != before[name] and time >= org.tracked_from[name] and time >= org.horizon and not is_lost:
                org.rows += draw(rows_of(time, name, before[name], value, user, has_types))
    noise = [row(0, "created", None, None), row(draw(st.integers(0, 60)), "feedEvent", None, None)]
    org.rows = draw(st.permutations([*org.rows, *org.rows[:2], *noise]))
    return org


@st.composite
def rows_of(
    draw: st.DrawFn, time: float, name: str, old: Any, new: Any, user: str, has_types: bool
) -> list[HistoryRow]:
    """What Salesforce writes of one change."""

    def made(kind: str | None, old: Any, new: Any, called: str = name) -> HistoryRow:
        identity = f"{time}{name}{kind}{called}{isinstance(old, str) and old in NAMES}{old}{new}"
        data_type = kind if has_types else None
        return HistoryRow(identity, called, old, new, at(int(time)), user, data_type)

    if name in VALUELESS:
        return [made("Text", *draw(st.sampled_from([(None, None), (old and old[:255], new and new[:255])])))]
    if name not in LOOKUPS:
        return [made(None, draw(json_forms(old)), draw(json_forms(new)))]
    of_owner = st.sampled_from([["Owner"], ["ownerAccepted"], ["Owner", "ownerAssignment"]])
    found = []
    for called in draw(of_owner) if name == "OwnerId" else [name]:
        found.append(made("Text", NAMES.get(old), NAMES.get(new), called))
        if draw(st.integers(0, 9)):
            found.append(made("EntityId", old, new, called))
    return found


@given(orgs(), st.data())
def test_whatever_an_org_did_every_certain_value_was_the_records(org: Org, data: st.DataObject) -> None:
    near = [event.time + 0.005 for event in org.log]
    first_at = data.draw(st.sampled_from([0.5, 30.0, 70.3, *near]), "first version")
    state = org.state(first_at)
    certain = data.draw(st.none() | st.sets(st.sampled_from(list(STATES))))
    certain = certain if certain is None else {*certain, "CreatedDate", "CreatedById"}
    known = {"Id": "001", "CreatedDate": T0, "CreatedById": ANN}
    first = FirstVersion({**state, **known}, at(first_at), certain)
    is_reported = data.draw(st.sets(st.sampled_from(list(STATES))))
    later = data.draw(st.sampled_from([0.0, 0.0, 7.0]))
    since = {name: at(max(time, org.horizon) + later) for name, time in org.tracked_from.items() if name in is_reported}
    found = fold_history(COLUMNS, first, org.rows, since)
    assert_they_follow(found.versions, first)
    for version in found.versions:
        start, stop = ((moment - T0).total_seconds() for moment in (version.valid_from, version.valid_to))
        # Rows tell seconds: a version shows what was at the end of each.
        for moment in range(int(start), int(stop)):
            was = {**org.state(moment + 1), **known}
            assert {name: was[name] for name in version.values} == version.values, (moment, version)
    reported = {name for name in is_reported if name not in VALUELESS and name not in LOOKUPS}
    assert not {each.field for each in found.misfits if each.why is Why.GAP} & reported


def assert_they_follow(versions: Sequence[PastVersion], first: FirstVersion) -> None:
    """Versions neither overlap nor leave holes, from the creation to the first known one."""
    assert [each.valid_to for each in versions] == [each.valid_from for each in versions[1:]] + (
        [first.valid_from] if versions else []
    )
    assert all(each.valid_from < each.valid_to for each in versions)
    assert (versions[0].valid_from if versions else T0) == T0
