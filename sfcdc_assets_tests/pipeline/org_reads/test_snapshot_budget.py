from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.snapshot_budget import (
    ASKED_EVERY_SECONDS,
    JOBS,
    REQUESTS,
    UNREACHABLE_SECONDS,
    SnapshotBudget,
)
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import ApiLimitReached, SessionExpired
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets_tests.simulated_clock import SimulatedClock


class Org:
    """What a budget asks of an org, and how often it did."""

    def __init__(self, **remaining: int) -> None:
        self.limits = {name: Limit(1_000, left) for name, left in remaining.items()}
        self.session = SimpleNamespace(calls=0)
        self.asked = 0
        self.failure: Exception | None = None

    def allowances(self) -> dict[str, Limit]:
        self.session.calls += 1
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return self.limits

    def budget(self, percent: float = 20.0) -> SnapshotBudget:
        return SnapshotBudget(cast(OrgConnection, self), percent)


def test_a_part_of_each_allowance_is_left_to_others_whoever_used_the_rest() -> None:
    assert Org(**{REQUESTS: 900, JOBS: 201}).budget().why_not() is None
    reason = Org(**{REQUESTS: 900, JOBS: 200}).budget().why_not()
    assert reason == (
        "the org has 200 of 1,000 Bulk query jobs left today, and SFCDC_SNAPSHOT_RESERVE_PERCENT leaves 20 % of them "
        "to others"
    )
    assert "200 of 1,000 API requests" in str(Org(**{REQUESTS: 200}).budget().why_not())


def test_what_we_take_ourselves_counts_without_asking_again() -> None:
    with clock.using(SimulatedClock(0)):
        org = Org(**{REQUESTS: 210, JOBS: 900})
        budget = org.budget()
        assert budget.why_not() is None
        org.session.calls += 10
        assert "200 of 1,000 API requests" in str(budget.why_not())
        assert org.asked == 1


def test_bulk_jobs_that_are_begun_count() -> None:
    org = Org(**{REQUESTS: 900, JOBS: 202})
    budget = org.budget()
    assert budget.why_not() is None
    for _ in range(2):
        budget.begins_a_job()
    assert "200 of 1,000 Bulk query jobs" in str(budget.why_not())


def test_the_org_is_asked_again_after_ten_minutes_and_copies_go_on() -> None:
    with clock.using(SimulatedClock(0)):
        org = Org(**{REQUESTS: 100})
        budget = org.budget()
        assert budget.why_not()
        org.limits = {REQUESTS: Limit(1_000, 900)}
        assert budget.why_not()
        clock.sleep(ASKED_EVERY_SECONDS)
        assert budget.why_not() is None
        assert org.asked == 2


def test_a_process_that_copies_nothing_asks_each_time_as_long_as_there_is_room() -> None:
    with clock.using(SimulatedClock(0)):
        org = Org(**{REQUESTS: 900})
        budget = org.budget()
        assert budget.why_not(is_sure=False) is None
        org.limits = {REQUESTS: Limit(1_000, 100)}
        assert [bool(budget.why_not(is_sure=False)) for _ in range(3)] == [True] * 3
        assert org.asked == 2


def test_an_org_that_does_not_say_what_is_left_holds_nothing_up() -> None:
    assert Org().budget(100.0).why_not() is None


def test_an_org_that_takes_no_more_requests_has_no_room_and_fails_nobody() -> None:
    with clock.using(SimulatedClock(0)):
        org = Org(**{REQUESTS: 900})
        org.failure = ApiLimitReached("https://org.example", "TotalRequests Limit exceeded.")
        budget = org.budget()
        assert "Limit exceeded" in str(budget.why_not())
        org.failure = None
        assert budget.why_not(), "it is not asked again at once"
        clock.sleep(UNREACHABLE_SECONDS)
        assert budget.why_not() is None


def test_an_org_that_goes_on_giving_no_answer_is_asked_after_pauses_that_grow_and_as_ever_when_it_does() -> None:
    with clock.using(SimulatedClock(0)):
        org = Org(**{REQUESTS: 900})
        org.failure = SessionExpired("https://org.example", renewed=True)
        budget = org.budget()
        for _ in range(240):
            assert budget.why_not()
            clock.sleep(15)
        assert 6 <= org.asked <= 10
        org.failure = None
        clock.sleep(ASKED_EVERY_SECONDS)
        assert budget.why_not() is None
        asked = org.asked
        org.failure = SessionExpired("https://org.example", renewed=True)
        clock.sleep(ASKED_EVERY_SECONDS)
        assert budget.why_not()
        clock.sleep(UNREACHABLE_SECONDS)
        assert budget.why_not()
        assert org.asked == asked + 2


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 100))
def test_no_reserve_is_passed_over_however_small_it_is_and_whoever_begins_at_once(
    maximum: int, used: int, percent: int
) -> None:
    org = Org()
    org.limits = {JOBS: Limit(maximum, max(0, maximum - used))}
    budget = org.budget(percent)
    with ThreadPoolExecutor(8) as threads:
        begun = sum(reason is None for reason in threads.map(lambda _: budget.begin(), range(64)))
    left = max(0, maximum - used) - begun
    assert not begun or left >= maximum * percent / 100
    assert left - 1 < maximum * percent / 100, "and what may be taken is taken"


def test_a_copy_that_has_its_job_goes_on_when_no_other_can_be_begun() -> None:
    budget = Org(**{REQUESTS: 900, JOBS: 201}).budget()
    assert budget.begin() is None
    assert "200 of 1,000 Bulk query jobs" in str(budget.begin())
    assert budget.why_not_go_on() is None


def test_a_reserve_of_requests_is_not_passed_over_by_a_copy_that_is_begun() -> None:
    assert "205 of 1,000 API requests" in str(Org(**{REQUESTS: 205}).budget().begin())
    assert Org(**{REQUESTS: 206}).budget().begin() is None
