"""The pipeline comes through what else goes wrong around an org: answers that are slow or cut, jobs that never end,
tokens and permissions that are lost for a while, a clock that is ahead.

What goes wrong with streams is in test_stream_weather and test_streams_that_are_cut, stale marks are in
test_stale_modstamp, moves in test_lost_checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.salesforce import bulk_query
from sfcdc_assets.salesforce.errors import BulkJobFailed, QueryRefused
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.view_all import REMEMBERED_SECONDS, ViewAllMissing
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import QuietPipeline, quiet

pytestmark = pytest.mark.slow

SETTLED_MS = 601_000
"""The stream follows a permission that is given back within ten minutes."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuietPipeline]:
    with pytest.MonkeyPatch.context() as patch, quiet(tmp_path_factory.mktemp("quiet"), patch, records=8) as pipeline:
        pipeline.sync()
        yield pipeline


@pytest.fixture
def pipeline(lived: QuietPipeline) -> Iterator[QuietPipeline]:
    """Synced; one pipeline for all tests, each of which leaves it equal to the org."""
    yield lived
    lived.server.faults.disarm()
    lived.server.rest_faults.disarm()
    lived.catch_up()
    lived.assert_equal()


def changes(pipeline: QuietPipeline, note: str) -> None:
    """Of two records, one of which has to be read back."""
    first, second, *_ = pipeline.ids()
    pipeline.update(first, Name=f"{note} 1")
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    pipeline.update(second, Name=f"{note} 2")


# -- REST


@pytest.mark.parametrize("fault", [RestFault.SLOW, RestFault.BODY_CUT, RestFault.CUT_OFF])
def test_a_read_back_whose_answer_is_slow_or_cut_is_made_again(pipeline: QuietPipeline, fault: RestFault) -> None:
    pipeline.server.rest_faults.arm(fault, path="/composite/sobjects", seconds=0.05)
    changes(pipeline, str(fault))
    pipeline.catch_up()
    assert pipeline.server.rest_faults.struck(fault) >= 1
    pipeline.assert_equal()


def test_a_page_of_csv_that_is_cut_is_asked_for_again(pipeline: QuietPipeline) -> None:
    pipeline.server.rest_faults.arm(RestFault.BODY_CUT, path="/jobs/query/750")
    before = pipeline.server.rest_faults.struck(RestFault.BODY_CUT)
    assert pipeline.snapshot().rows == len(pipeline.ids())
    assert pipeline.server.rest_faults.struck(RestFault.BODY_CUT) == before + 1


def test_a_query_whose_locator_is_gone_is_refused_as_a_whole_and_can_be_begun_again(pipeline: QuietPipeline) -> None:
    soql = "SELECT Id FROM Task"
    pipeline.org.populate({"Task": 2_100})
    pipeline.server.rest_faults.arm(RestFault.LOCATOR_GONE)
    with pytest.raises(QueryRefused, match="INVALID_QUERY_LOCATOR"):
        list(query_rows(pipeline.session, soql))
    assert len(list(query_rows(pipeline.session, soql))) == pipeline.org.count("Task")


def test_all_tokens_may_expire_at_any_time(pipeline: QuietPipeline) -> None:
    changes(pipeline, "tokens")
    pipeline.server.faults.arm(Fault.TOKENS_EXPIRED)
    pipeline.catch_up()
    pipeline.server.faults.arm(Fault.TOKENS_EXPIRED)
    pipeline.snapshot()
    pipeline.assert_equal()


# -- jobs that never end


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is given up after ten minutes."""
    defaults = bulk_query.wait_for_job.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "wait_s", 600.0)


@pytest.mark.usefixtures("impatient")
def test_a_job_that_never_ends_is_given_up_aborted_and_not_waited_for_again(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.BULK_JOB_STUCK)
    with pytest.raises(BulkJobFailed, match=r"is InProgress: it has not ended after \d+ seconds"):
        pipeline.snapshot()
    jobs = pipeline.session.request("GET", "jobs/query")["records"]
    assert [job["state"] for job in jobs[-1:]] == ["Aborted"]
    assert pipeline.snapshot().rows == len(pipeline.ids())


def test_a_job_that_somebody_aborts_is_begun_again(pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = bulk_query.wait_for_job.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "wait_s", -1.0)
    monkeypatch.setattr(bulk_query, "abort_job", lambda session, job: None)
    pipeline.server.faults.arm(Fault.BULK_JOB_STUCK)
    with pytest.raises(BulkJobFailed):
        pipeline.snapshot()
    monkeypatch.undo()
    jobs = pipeline.session.request("GET", "jobs/query")["records"]
    path = f"jobs/query/{jobs[-1]['id']}"
    assert pipeline.session.request("PATCH", path, json={"state": "Aborted"})["state"] == "Aborted"
    assert pipeline.snapshot().rows == len(pipeline.ids())


# -- what an administrator does, and clocks


def test_a_permission_that_is_gone_for_a_while_deletes_nothing(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.PERMISSION_WITHDRAWN, seconds=3_600)
    pipeline.clock.advance(round(REMEMBERED_SECONDS * 1000))
    with pytest.raises(ViewAllMissing):
        pipeline.snapshot()
    pipeline.catch_up()
    pipeline.clock.advance(3_600_000)
    assert pipeline.snapshot().rows == len(pipeline.ids())
    pipeline.catch_up()
    (entry,) = pipeline.open_suspects().values()
    assert (entry["record_id"], entry["reason"]) == ("*", "missed_events"), "the stream may not follow yet"
    pipeline.clock.advance(SETTLED_MS)
    assert pipeline.snapshot().rows == len(pipeline.ids())
    pipeline.catch_up()
    pipeline.assert_equal()


def test_an_org_whose_clock_is_ahead_is_followed_all_the_same(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.CLOCK_SKEW, ahead=7_200, seconds=1_000)
    changes(pipeline, "ahead")
    pipeline.catch_up()  # which takes the last event for one that came after it began, and leaves it to the next one
    pipeline.catch_up()
    pipeline.assert_equal()
    pipeline.clock.advance(1_000_000)
    changes(pipeline, "back")
    pipeline.catch_up()
    pipeline.clock.advance(7_200_000)
    pipeline.catch_up()
    pipeline.assert_equal()


def test_rest_that_lags_for_a_while_is_read_again(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.REST_LAG, behind=20, seconds=200)
    changes(pipeline, "late")
    pipeline.catch_up()
    pipeline.clock.advance(200_000)
    pipeline.catch_up()
    pipeline.assert_equal()
