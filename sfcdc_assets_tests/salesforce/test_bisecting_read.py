"""One record that spoils every answer it is in keeps none of the others from being read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.salesforce.bisecting_read import MOST_FAILURES, PATIENCE, bisecting_read
from sfcdc_assets.salesforce.errors import ApiLimitReached, OrgUnavailable, QueryRefused, UnexpectedAnswer

ERRORS = (
    QueryRefused("retrieve", 400, "UNABLE_TO_CONVERT", "odd"),
    QueryRefused("retrieve", 414, "HTTP_414", "too long"),
    UnexpectedAnswer("https://org", "not one record or null"),
    OrgUnavailable("https://org", 2, "HTTP 500", status=500),
    OrgUnavailable("https://org", 2, "no answer within the time limit", timed_out=True),
)
OF_ALL = (
    QueryRefused("retrieve", 400, "INVALID_FIELD", "No such column"),
    OrgUnavailable("https://org", 2, "HTTP 503", status=503),
    ApiLimitReached("https://org", "TotalRequests"),
)


class Source:
    """Records that are there, but for those that spoil any answer."""

    def __init__(self, spoiling, error=ERRORS[0]):
        self.spoiling, self.error = set(spoiling), error
        self.requests = 0

    def __call__(self, some):
        self.requests += 1
        if self.spoiling & set(some):
            raise self.error
        return {record_id: {"Id": record_id} for record_id in some}


def ids(number):
    return [f"{n:04}" for n in range(number)]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("bad", ["0000", "0777", "1999"])
def test_one_of_two_thousand_is_found_by_two_dozen_requests(error, bad):
    source = Source([bad], error)
    found = bisecting_read(ids(2000), source, 2000)
    assert found.refused == {bad: error}
    assert found.rows.keys() == {*ids(2000)} - {bad}
    assert source.requests <= 1 + 2 * 11


@given(st.integers(0, 300), st.sets(st.integers(0, 299), max_size=40), st.sampled_from([1, 7, 50, 300]))
def test_every_record_is_read_or_refused_or_left_and_requests_are_bounded(number, spoiling, batch):
    wanted = ids(number)
    source = Source({f"{n:04}" for n in spoiling})
    found = bisecting_read(wanted, source, batch)
    assert sorted([*found.rows, *found.refused, *found.left]) == wanted
    assert not source.spoiling & found.rows.keys()
    assert source.requests <= -(-number // batch) + 2 * MOST_FAILURES


def test_what_is_left_because_too_much_failed_is_read_the_next_time():
    source = Source(ids(2000)[::40])
    wanted = ids(2000)
    for _ in range(20):
        found = bisecting_read(wanted, source, 2000)
        assert found.rows or found.refused
        wanted = list(found.left)
        if not wanted:
            return
    raise AssertionError(f"{len(wanted)} are left")


def test_an_org_that_answers_nothing_is_asked_a_few_times_only():
    source = Source(ids(2000))
    found = bisecting_read(ids(2000), source, 2000)
    assert found.refused.keys() == {*ids(2000)}
    assert source.requests == PATIENCE


@pytest.mark.parametrize("error", OF_ALL)
def test_an_error_that_speaks_of_all_records_is_raised_at_once(error):
    source = Source(["0001"], error)
    with pytest.raises(type(error)):
        bisecting_read(ids(2000), source, 2000)
    assert source.requests == 1
