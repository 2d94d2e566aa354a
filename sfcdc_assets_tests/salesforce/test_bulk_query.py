"""Bulk query jobs: states, polling, pages, locators, and a CSV with everything a Salesforce value can be."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.salesforce.bulk_csv import read_page
from sfcdc_assets.salesforce.bulk_pages import pages
from sfcdc_assets.salesforce.bulk_query import BulkJob, abort_job, create_job, read_job, wait_for_job
from sfcdc_assets.salesforce.errors import (
    BulkJobFailed,
    BulkJobGone,
    EntityNotReadable,
    QueryRefused,
    RowsUnreadable,
    UnexpectedAnswer,
)
from sfcdc_assets_tests.salesforce.scripted_org import EXPIRED, Answer, refusal

JOB = "jobs/query/750Ab0000000001MAA"
RESULTS = f"{JOB}/results"
SCHEMA = pa.schema({"Id": pa.string(), "N": pa.int32()})


def description(state: str, **more: object) -> Answer:
    job = {"id": JOB.rpartition("/")[2], "object": "Account", "state": state, "apiVersion": 64.0}
    return Answer(200, {**job, **more})


def page(rows: list[list[str]], locator: str = "null", header: tuple[str, ...] = ("Id", "N"), **headers: str) -> Answer:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *rows])
    usual = {"Content-Type": "text/csv", "Sforce-NumberOfRecords": str(len(rows)), "Sforce-Locator": locator}
    return Answer(200, text.getvalue().encode(), {**usual, **{k.replace("_", "-"): v for k, v in headers.items()}})


@pytest.fixture
def job() -> BulkJob:
    return BulkJob(JOB.rpartition("/")[2], "Account", "JobComplete", "64.0", 3, "")


def test_a_job_is_created_for_all_rows_and_given_back(org, session):
    org.on("POST", "jobs/query", description("UploadComplete"))
    job = create_job(session, "Account", "SELECT Id FROM Account")
    assert (job.entity, job.state, job.api_version, job.records) == ("Account", "UploadComplete", "64.0", None)
    sent = org.requests("POST", "jobs/query")[0].json
    assert (sent["operation"], sent["query"], sent["lineEnding"]) == ("queryAll", "SELECT Id FROM Account", "LF")


@pytest.mark.parametrize(
    ("code", "error"),
    [("INVALIDENTITY", EntityNotReadable), ("INVALID_TYPE", EntityNotReadable), ("INVALID_FIELD", QueryRefused)],
)
def test_a_job_that_is_refused_says_whether_the_entity_or_the_query_is_at_fault(org, session, code, error):
    org.on("POST", "jobs/query", refusal(400, code, "no"))
    with pytest.raises(error, match=code):
        create_job(session, "Account", "SELECT Id FROM Account")


def test_waiting_grows_from_a_fifth_of_a_second_to_ten_seconds(org, session, slept):
    busy = [description("UploadComplete"), *[description("InProgress")] * 8]
    org.on("GET", JOB, *busy, description("JobComplete", numberRecordsProcessed=7))
    assert wait_for_job(session, JOB.rpartition("/")[2]).records == 7
    assert slept == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]


def test_waiting_ends_and_the_job_is_aborted(org, session, slept):
    org.on("GET", JOB, description("InProgress"))
    org.on("PATCH", JOB, description("Aborted"))
    with pytest.raises(BulkJobFailed, match=r"is InProgress: it has not ended after .* and was aborted"):
        wait_for_job(session, JOB.rpartition("/")[2], wait_s=60)
    assert 60 <= sum(slept) <= 70
    assert [seen.json for seen in org.requests("PATCH", JOB)] == [{"state": "Aborted"}]


@pytest.mark.parametrize("state", ["Failed", "Aborted"])
def test_a_job_that_ends_without_results_tells_the_servers_reason(org, session, state):
    org.on("GET", JOB, description(state, errorMessage="Retried more than 15 times"))
    with pytest.raises(BulkJobFailed, match=f"is {state}: Retried more than 15 times"):
        wait_for_job(session, JOB.rpartition("/")[2])


def test_a_job_that_is_gone_is_reported_as_such_wherever_it_shows(org, session, job):
    org.on("GET", RESULTS, refusal(404, "NOT_FOUND"))
    for attempt in (lambda: read_job(session, job.id), lambda: list(pages(session, job, SCHEMA, max_records=10))):
        with pytest.raises(BulkJobGone, match="starts a new job at a new position"):
            attempt()


def test_pages_follow_the_locators_and_stop_at_null(org, session, job):
    org.on("GET", RESULTS, page([["a", "1"], ["b", "2"]], "MTAw"), page([["c", ""]]))
    found = list(pages(session, job, SCHEMA, max_records=2))
    assert [(p.number_of_records, p.next_locator) for p in found] == [(2, "MTAw"), (1, None)]
    assert [row for p in found for row in p.table.to_pylist()] == [
        {"Id": "a", "N": 1},
        {"Id": "b", "N": 2},
        {"Id": "c", "N": None},
    ]
    assert [seen.query for seen in org.requests("GET", RESULTS)] == [
        {"maxRecords": "2"},
        {"maxRecords": "2", "locator": "MTAw"},
    ]


def test_reading_begins_at_any_locator(org, session, job):
    org.on("GET", RESULTS, page([["c", "3"]]))
    assert [p.table.num_rows for p in pages(session, job, SCHEMA, locator="MTAw", max_records=2)] == [1]
    assert org.requests("GET", RESULTS)[0].query["locator"] == "MTAw"


def test_a_token_that_expires_between_pages_is_renewed_and_reading_goes_on_at_the_locator(org, session, job):
    org.on("GET", RESULTS, page([["a", "1"]], "MTAw"), EXPIRED, page([["b", "2"]]))
    assert [p.table["Id"].to_pylist() for p in pages(session, job, SCHEMA, max_records=1)] == [["a"], ["b"]]
    seen = org.requests("GET", RESULTS)
    assert [s.query.get("locator") for s in seen] == [None, "MTAw", "MTAw"]
    assert seen[1].token != seen[2].token


def test_a_page_that_breaks_in_the_middle_is_read_again_whole(org, session, job):
    whole = page([["a", "1"], ["b", "2"]])
    org.on("GET", RESULTS, Answer(200, whole.body[:12], whole.headers, cut=True), whole)
    assert [p.table.num_rows for p in pages(session, job, SCHEMA, max_records=2)] == [2]


def test_compressed_pages_are_read(org, session, job):
    plain = page([["a", "1"]])
    org.on("GET", RESULTS, Answer(200, gzip.compress(plain.body), {**plain.headers, "Content-Encoding": "gzip"}))
    assert [p.table.num_rows for p in pages(session, job, SCHEMA, max_records=2)] == [1]


def test_a_page_beyond_the_byte_limit_is_asked_for_again_with_half_the_rows(org, session, job):
    text = "x" * 1000
    big = page([[text, "1"]] * 4)
    org.on("GET", RESULTS, big, page([[text, "1"]] * 2, "MTAw"), page([[text, "2"]] * 2))
    found = list(pages(session, job, SCHEMA, max_records=4, max_bytes=3000))
    assert [p.number_of_records for p in found] == [2, 2]
    asked = [(seen.query["maxRecords"], seen.query.get("locator")) for seen in org.requests("GET", RESULTS)]
    assert asked == [("4", None), ("2", None), ("2", "MTAw")]


def test_one_record_beyond_the_byte_limit_is_read_all_the_same(org, session, job):
    org.on("GET", RESULTS, page([["x" * 10_000, "1"]]))
    assert [p.number_of_records for p in pages(session, job, SCHEMA, max_records=1, max_bytes=1000)] == [1]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(204), "without a page of results"),
        (Answer(200, b'"Id","N"\n', {"Content-Type": "text/csv"}), "without a page of results"),
        (page([["a", "1"]], Sforce_NumberOfRecords="2"), "1 record that says it has 2"),
        (page([["a", "1"]], locator="MTAw"), "names itself"),
        (Answer(200, b'"Id","N"\n"a"\n', {"Sforce-NumberOfRecords": "1"}), "not CSV"),
        (Answer(200, b"<html>\n1,2\n</html>", {"Sforce-NumberOfRecords": "2"}), "not CSV"),
    ],
)
def test_a_page_that_is_no_page_is_reported_without_quoting_values(org, session, job, answer, problem):
    org.on("GET", RESULTS, answer)
    with pytest.raises(UnexpectedAnswer, match=problem) as caught:
        list(pages(session, job, SCHEMA, locator="MTAw", max_records=2))
    assert "not a number" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("not a number", "column N holds a value that is no"),
        ("1.5", "a column holds a number that does not fit its type"),
        ("3000000000", "a column holds a number that does not fit its type"),
    ],
)
def test_a_value_that_does_not_convert_costs_its_row_alone(org, session, job, value, problem):
    rows = [[f"{n:03}", value if n in (7, 200) else str(n)] for n in range(300)]
    org.on("GET", RESULTS, page([*rows, ['quo"ted,\nId', ""]]))
    (only,) = pages(session, job, SCHEMA, max_records=500)
    assert only.unreadable.keys() == {"007", "200"}
    assert all(description.startswith(problem) and value not in description for description in only.unreadable.values())
    assert only.number_of_records == 301
    expected = {f"{n:03}": n for n in range(300) if n not in (7, 200)} | {'quo"ted,\nId': None}
    assert dict(zip(*only.table.to_pydict().values(), strict=True)) == expected


def test_a_page_of_which_no_value_converts_is_refused_as_a_whole(org, session, job):
    org.on("GET", RESULTS, page([[f"{n:03}", "not a number"] for n in range(300)]))
    with pytest.raises(RowsUnreadable, match="column N holds a value that is no"):
        list(pages(session, job, SCHEMA, max_records=500))


@pytest.mark.parametrize("body", [b'"Id","N"\n', b'"Id","N"', b""])
def test_a_result_without_rows_is_one_empty_page(org, session, job, body):
    org.on("GET", RESULTS, Answer(200, body, {"Sforce-NumberOfRecords": "0", "Sforce-Locator": "null"}))
    (only,) = pages(session, job, SCHEMA, max_records=2)
    assert (only.number_of_records, only.next_locator, only.table.schema.names) == (0, None, ["Id", "N"])


def test_results_are_asked_with_the_version_the_job_was_created_with(org, session, job):
    old = BulkJob(job.id, "Account", "JobComplete", "61.0", 1, "")
    org.on("GET", f"/services/data/v61.0/{RESULTS}", page([["a", "1"]]))
    assert len(list(pages(session, old, SCHEMA, max_records=2))) == 1


def test_aborting_a_job_that_is_gone_is_no_error(org, session, job):
    abort_job(session, job)
    org.on("PATCH", JOB, description("Aborted"))
    abort_job(session, job)
    assert org.requests("PATCH", JOB)[1].json == {"state": "Aborted"}


def test_every_type_is_read_as_itself():
    schema = pa.schema(
        {
            "B": pa.bool_(),
            "I": pa.int32(),
            "D": pa.float64(),
            "On": pa.date32(),
            "At": pa.timestamp("us", tz="UTC"),
            "T": pa.string(),
        }
    )
    content = (
        '"B","I","D","On","At","T","Other"\n'
        '"true","7","1.5E-3","2024-02-29","2024-01-02T03:04:05.678Z","a ""quoted""\r\n, line\n","007"\n'
        '"false","-2147483648","-0.1","1700-01-01","1970-01-01T00:00:00.000Z"," kept ","NULL"\n'
        '"","","","","","",""\n'
        '"true","1.0E3","12345678901234.56","4000-12-31","4000-12-31T23:59:59.999Z","é漢😀","x"\n'
    )
    rows = read_page(io.BytesIO(content.encode()), schema, "a page").table.to_pylist()
    assert rows[0] == {
        "B": True,
        "I": 7,
        "D": 0.0015,
        "On": date(2024, 2, 29),
        "At": datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        "T": 'a "quoted"\r\n, line\n',
        "Other": "007",
    }
    assert rows[1]["I"] == -(2**31)
    assert (rows[1]["On"], rows[1]["T"], rows[1]["Other"]) == (date(1700, 1, 1), " kept ", "NULL")
    assert set(rows[2].values()) == {None}
    assert (rows[3]["I"], rows[3]["D"], rows[3]["T"]) == (1000, 12345678901234.56, "é漢😀")
    assert rows[3]["At"] == datetime(4000, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


_VALUES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40), st.text('",\r\n', max_size=8)
)


@given(st.lists(st.tuples(_VALUES, _VALUES), max_size=8))
def test_any_text_comes_through_and_empty_is_null(rows):
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("A", "B"), *rows])
    schema = pa.schema({"A": pa.string(), "B": pa.string()})
    table = read_page(io.BytesIO(text.getvalue().encode()), schema, "a page").table
    assert [tuple(row.values()) for row in table.to_pylist()] == [(a or None, b or None) for a, b in rows]
