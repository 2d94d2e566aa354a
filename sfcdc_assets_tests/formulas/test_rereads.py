"""What is read again first, what waits, and what it costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.formulas.rereads import Limits, Reason, RereadPlan, Values, plan_rereads

NOW = datetime(2025, 2, 3, 12, tzinfo=UTC)
MIDNIGHT = datetime(2025, 2, 3, tzinfo=UTC)
LIMITS = Limits(requests=3, age=timedelta(days=7), ids_per_request=2, requests_of_job=4, rows_per_page=100)
YESTERDAY, LAST_MONTH = NOW - timedelta(days=1), NOW - timedelta(days=30)


def values(*oldest: tuple[str, datetime | None], records: int = 1_000_000, **counts: int) -> Values:
    found = {
        "unread": sum(at is None for _, at in oldest),
        "before_today": sum(at is not None and at < MIDNIGHT for _, at in oldest),
        "too_old": sum(at is not None and at < NOW - LIMITS.age for _, at in oldest),
    }
    return Values(records, **{**found, **counts}, oldest=oldest)


def plan(known: Values, changed=(), parents=(), limits: Limits = LIMITS, *, daily: bool = False) -> RereadPlan:
    return plan_rereads(known, changed, parents, limits, now=NOW, day_began=MIDNIGHT if daily else None)


def test_nothing_is_read_where_nothing_is_due():
    assert plan(values(("a", YESTERDAY))) == RereadPlan()


def test_changed_records_come_first_then_those_of_changed_parents_then_the_rest_by_age():
    known = values(("new", None), ("old", LAST_MONTH), ("fresh", NOW))
    found = plan(known, ["c1", "old"], ["p1", "c1"])
    assert found.ids == ("c1", "old", "p1", "new")
    assert found.requests == 2
    assert found.reasons == {Reason.RECORD_CHANGED: 2, Reason.PARENT_CHANGED: 1, Reason.NEVER_READ: 1}
    assert not found.postponed


def test_what_the_budget_is_not_enough_for_waits_and_is_counted():
    found = plan(values(("o1", LAST_MONTH), ("o2", LAST_MONTH), too_old=50), ["c1", "c2", "c3"], ["p1", "p2"])
    assert found.ids == ("c1", "c2", "c3", "p1", "p2", "o1")
    assert found.requests == 3
    assert found.postponed == {Reason.AGE: 49}


def test_a_formula_that_names_the_time_is_read_once_a_day():
    known = values(("a", YESTERDAY), ("b", MIDNIGHT), ("c", LAST_MONTH))
    assert plan(known, daily=True).ids == ("a", "c")
    assert plan(known, daily=True).reasons == {Reason.NEW_DAY: 2}
    assert plan(known).ids == ("c",)


def test_an_entity_is_read_whole_where_that_costs_no_more():
    known = values(("a", None), records=100, unread=100)
    whole = plan(known, limits=Limits(5, timedelta(days=7), 2, 4, 100))
    assert (whole.whole, whole.requests, whole.reasons) == (True, 5, {Reason.NEVER_READ: 100})
    by_ids = plan(known, limits=Limits(4, timedelta(days=7), 2, 4, 100))
    assert (by_ids.whole, by_ids.ids, by_ids.postponed) == (False, ("a",), {Reason.NEVER_READ: 99})


def test_without_a_budget_everything_waits():
    found = plan(values(), ["c1"], limits=Limits(0, timedelta(days=7)))
    assert (found.ids, found.requests, found.postponed) == ((), 0, {Reason.RECORD_CHANGED: 1})


def test_eight_million_records_of_a_daily_formula_cost_some_hundred_requests():
    limits = Limits(requests=1_000, age=timedelta(days=7))
    found = plan(values(records=8_000_000, before_today=8_000_000), limits=limits, daily=True)
    assert (found.whole, found.requests) == (True, 328)


TIMES = st.sampled_from([None, LAST_MONTH, YESTERDAY, NOW])
RECORDS = st.sampled_from([f"r{number}" for number in range(12)])
IDS = st.lists(RECORDS, unique=True)


@given(st.dictionaries(RECORDS, TIMES), IDS, IDS, st.integers(0, 5), st.booleans())
def test_a_plan_keeps_to_its_budget_and_loses_no_record(times, changed, parents, requests, daily):
    limits = Limits(requests, timedelta(days=7), 2, 4, 100)
    known = values(*times.items(), records=12)
    found = plan(known, changed, parents, limits, daily=daily)
    aged = {each for each, at in times.items() if at is None or (at < MIDNIGHT if daily else at < NOW - limits.age)}
    due = {*changed, *parents, *aged}
    assert found.requests <= requests
    assert len(set(found.ids)) == len(found.ids)
    assert sum(found.reasons.values()) + sum(found.postponed.values()) == len(due)
    if not found.whole:
        assert set(found.ids) <= due
        assert len(found.ids) == min(len(due), limits.most_ids)


@pytest.mark.parametrize(("records", "requests"), [(0, 8), (1, 9), (25_000, 9), (25_001, 10)])
def test_a_whole_read_costs_its_job_and_its_pages(records, requests):
    assert Limits(1, timedelta(days=1)).whole(records) == requests
