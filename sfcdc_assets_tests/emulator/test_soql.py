"""SOQL against rows the test knows: each query's answer is also worked out in plain Python."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.clock import ManualClock
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.field_value import datetime_text
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.soql.date_literal import date_span

NOW = 1_738_584_000_000  # Monday 2025-02-03T12:00:00Z


def run(org: EmulatedOrg, soql: str, **options: Any) -> list[tuple[Any, ...]]:
    compiled = compile_query(soql, org.definitions, now=org.clock(), **options)
    return org.database.rows(compiled.sql, compiled.parameters)


def ids(org: EmulatedOrg, where: str) -> list[str]:
    return [row[0] for row in run(org, f"SELECT Id FROM Account WHERE {where} ORDER BY Id")]


def names(org: EmulatedOrg, soql: str) -> list[str | None]:
    return [row[1] for row in run(org, soql)]


@pytest.fixture
def org() -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(NOW))
    rows: list[dict[str, Any]] = [
        {"Name": "Äpfel", "Rating": "Hot", "NumberOfEmployees": 5, "Regions__c": "North;East"},
        {"Name": "banana", "Rating": "hot", "Site": "100%", "Regions__c": "North"},
        {"Name": "Cherry's", "NumberOfEmployees": 50, "Site": "a_b", "Is_Partner__c": True},
        {"Name": "Date", "Rating": "Cold", "Site": "axb", "SLAExpirationDate__c": "2025-02-03"},
        {"Name": "Elder\\berry", "SLAExpirationDate__c": "2025-01-31", "Support_Opens__c": "09:00:00Z"},
    ]
    with org.transaction() as work:
        for row in rows:
            work.create("Account", row)
    return org


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("Rating = 'HOT'", ["Äpfel", "banana"]),
        ("Rating != 'Hot'", ["Cherry's", "Date", "Elder\\berry"]),
        ("Rating <> 'Hot' AND Rating != null", ["Date"]),
        ("Rating = ''", ["Cherry's", "Elder\\berry"]),
        ("Rating IN ('cold', null)", ["Cherry's", "Date", "Elder\\berry"]),
        ("Rating NOT IN ('cold', 'hot')", ["Cherry's", "Elder\\berry"]),
        ("Rating NOT IN ('cold', null)", ["Äpfel", "banana"]),
        ("NOT Rating = 'Hot'", ["Cherry's", "Date", "Elder\\berry"]),
        ("(NOT NumberOfEmployees < 10) AND Rating = null", ["Cherry's", "Elder\\berry"]),
        ("NumberOfEmployees < 10 OR NumberOfEmployees >= 5e1", ["Äpfel", "Cherry's"]),
        ("Name LIKE 'ä%'", ["Äpfel"]),
        ("Name LIKE '%AN%'", ["banana"]),
        ("Site LIKE 'a_b'", ["Cherry's", "Date"]),
        (r"Site LIKE 'a\_b'", ["Cherry's"]),
        (r"Site LIKE '%\%'", ["banana"]),
        (r"Name LIKE '%\\%'", ["Elder\\berry"]),
        (r"Name = 'cherry\'s'", ["Cherry's"]),
        ("(NOT Site LIKE 'a%') AND Site != null", ["banana"]),
        ("Regions__c INCLUDES ('North;East')", ["Äpfel"]),
        ("Regions__c INCLUDES ('East', 'North')", ["Äpfel", "banana"]),
        ("Regions__c EXCLUDES ('East')", ["banana", "Cherry's", "Date", "Elder\\berry"]),
        ("Is_Partner__c = true", ["Cherry's"]),
        ("Is_Partner__c != TRUE AND Rating = 'cold'", ["Date"]),
        ("SLAExpirationDate__c = TODAY", ["Date"]),
        ("SLAExpirationDate__c != TODAY", ["Äpfel", "banana", "Cherry's", "Elder\\berry"]),
        ("SLAExpirationDate__c < TODAY", ["Elder\\berry"]),
        ("SLAExpirationDate__c <= LAST_MONTH", ["Elder\\berry"]),
        ("SLAExpirationDate__c = LAST_N_DAYS:3", ["Date", "Elder\\berry"]),
        ("SLAExpirationDate__c IN (2025-02-03, LAST_MONTH)", ["Date", "Elder\\berry"]),
        ("SLAExpirationDate__c > 2025-01-31", ["Date"]),
        ("CreatedDate = 2025-02-03T13:00:00+01:00 AND Name > 'd'", ["Date", "Elder\\berry", "Äpfel"]),
        ("CreatedDate > 2025-02-03T12:00:00Z", []),
        ("Support_Opens__c = 09:00:00.000Z", ["Elder\\berry"]),
        ("Owner.FirstName = 'integration' AND Owner.IsActive = true AND Name = 'date'", ["Date"]),
        ("Account.Name = 'date'", ["Date"]),
    ],
)
def test_where_finds_what_soql_finds(org: EmulatedOrg, where: str, expected: list[str]) -> None:
    assert sorted(str(name) for name in names(org, f"SELECT Name FROM Account WHERE {where}")) == sorted(expected)


def test_ids_of_15_characters_match_their_18_character_form(org: EmulatedOrg) -> None:
    record_id = next(org.records("Account"))["Id"]
    assert ids(org, f"Id = '{str(record_id)[:15]}'") == [record_id]
    assert ids(org, f"Id IN ('{str(record_id)[:15]}')") == [record_id]
    assert record_id not in ids(org, f"Id > '{record_id}'")


def test_nulls_come_first_unless_they_are_sent_last(org: EmulatedOrg) -> None:
    soql = "SELECT Site FROM Account ORDER BY Site"
    assert names(org, soql) == [None, None, "100%", "a_b", "axb"]
    assert names(org, soql + " DESC") == [None, None, "axb", "a_b", "100%"]
    assert names(org, soql + " DESC NULLS LAST LIMIT 2 OFFSET 1") == ["a_b", "100%"]


def test_deleted_records_are_found_by_all_rows_and_query_all_only(org: EmulatedOrg) -> None:
    first = str(next(org.records("Account"))["Id"])
    with org.transaction() as work:
        work.delete("Account", first)
    soql = "SELECT Id FROM Account WHERE IsDeleted = true"
    assert run(org, soql) == []
    assert len(run(org, soql + " ALL ROWS")) == len(run(org, soql, include_deleted=True)) == 1


def test_counts_are_of_rows_or_of_values(org: EmulatedOrg) -> None:
    assert run(org, "SELECT COUNT() FROM Account") == [(5,)]
    assert run(org, "select count() from account limit 2") == [(2,)]
    assert run(org, "SELECT COUNT(Id), COUNT(Rating) rated FROM Account") == [(5, 3)]


def test_person_names_are_queried_as_full_names(org: EmulatedOrg) -> None:
    with org.transaction() as work:
        work.create("Contact", {"Salutation": "Dr.", "FirstName": "Ana", "LastName": "Kaya"})
        work.create("Contact", {"LastName": "Silva"})
    assert names(org, "SELECT Name FROM Contact WHERE Name IN ('ana kaya', 'Silva') ORDER BY Name") == [
        "Ana Kaya",
        "Silva",
    ]


@pytest.mark.parametrize(
    "soql",
    [
        "",
        "SELECT",
        "SELECT FROM Account",
        "SELECT Id FROM Account WHERE",
        "SELECT Id Name FROM Account",
        "SELECT Id FROM Account WHERE Name = 'a' AND Rating = 'b' OR Site = 'c'",
        "SELECT Id FROM Account WHERE NOT Name = 'a' AND Rating = 'b'",
        "SELECT Id FROM Account WHERE Name = 'a",
        'SELECT Id FROM Account WHERE Name = "a"',
        r"SELECT Id FROM Account WHERE Name = 'a\q'",
        "SELECT Id FROM Account WHERE Name == 'a'",
        "SELECT TYPEOF What ELSE Name END FROM Task",
        "SELECT TYPEOF What WHEN Account THEN Id FROM Task",
        "SELECT TYPEOF What WHEN Account THEN END FROM Task",
        "SELECT Id, COUNT(Id) FROM Account",
        "SELECT Name FROM Account GROUP BY Rating",
        "SELECT Rating FROM Account GROUP BY Rating ORDER BY Name",
        "SELECT Rating FROM Account GROUP BY Rating HAVING Name = 'a'",
        "SELECT COUNT(Id) FROM Account LIMIT 3",
        "SELECT Name n FROM Account",
        "SELECT SUM() FROM Account",
        "SELECT Id FROM Account WHERE COUNT(Id) > 1",
        "SELECT Id FROM Account FOR NOTHING",
        "SELECT Id FROM Account WHERE Id IN (SELECT AccountId, Id FROM Contact)",
        "SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Contact LIMIT 1)",
        "SELECT Id, (SELECT COUNT(Id) FROM Contacts) FROM Account",
        "SELECT FIELDS(ALL) FROM Account",
        "SELECT Id FROM Account LIMIT -1",
        "SELECT Id FROM Account; DROP TABLE Account",
        "SELECT Id FROM Account WHERE CreatedDate = LAST_FISCAL_YEAR",
        "DELETE FROM Account",
    ],
)
def test_what_is_not_understood_is_a_malformed_query(org: EmulatedOrg, soql: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(org, soql)
    assert caught.value.error_code == "MALFORMED_QUERY"


@pytest.mark.parametrize(
    ("soql", "code", "reason"),
    [
        ("SELECT Nope FROM Account", "INVALID_FIELD", "No such column 'Nope' on entity 'Account'"),
        ("SELECT Id FROM Account ORDER BY Nope", "INVALID_FIELD", "No such column"),
        ("SELECT Owner.Nope FROM Account", "INVALID_FIELD", "No such column 'Nope' on entity 'User'"),
        ("SELECT Boss.Name FROM Account", "INVALID_FIELD", "Didn't understand relationship 'Boss'"),
        ("SELECT What.Name FROM Task", "INVALID_FIELD", "Didn't understand relationship"),
        ("SELECT Id, id FROM Account", "INVALID_FIELD", "duplicate field selected: Id"),
        ("SELECT Id FROM Nope", "INVALID_TYPE", "sObject type 'Nope' is not supported"),
        ("SELECT Id FROM Account WHERE Name = 5", "INVALID_FIELD", "of type string and should be enclosed in quotes"),
        ("SELECT Id FROM Account WHERE Fax > true", "INVALID_FIELD", "must be of type string"),
        ("SELECT Id FROM Account WHERE AnnualRevenue = '5'", "INVALID_FIELD", "must be of type double and should not"),
        ("SELECT Id FROM Account WHERE CreatedDate > 2025-01-01", "INVALID_FIELD", "must be of type dateTime"),
        ("SELECT Id FROM Account WHERE SLAExpirationDate__c = 2025-02-30", "INVALID_FIELD", "Invalid value"),
        ("SELECT Id FROM Account WHERE Description = 'x'", "INVALID_FIELD", "can not be filtered"),
        ("SELECT Id FROM Account WHERE BillingAddress = 'x'", "INVALID_FIELD", "can not be filtered"),
        ("SELECT Id FROM Account ORDER BY Regions__c", "INVALID_FIELD", "can not be sorted"),
        ("SELECT Id FROM Account WHERE Id = 'x'", "INVALID_QUERY_FILTER_OPERATOR", "invalid ID field: x"),
        ("SELECT Id FROM Account WHERE Id LIKE '0%'", "INVALID_QUERY_FILTER_OPERATOR", "invalid operator"),
        ("SELECT Id FROM Account WHERE Name INCLUDES ('x')", "INVALID_QUERY_FILTER_OPERATOR", "invalid operator"),
        ("SELECT Id FROM Account LIMIT 1 OFFSET 2001", "NUMBER_OUTSIDE_VALID_RANGE", "2000"),
    ],
)
def test_a_wrong_name_or_value_is_refused_with_its_reason(org: EmulatedOrg, soql: str, code: str, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(org, soql)
    assert caught.value.error_code == code
    assert reason in caught.value.message


def test_an_error_points_at_its_place_as_salesforce_does(org: EmulatedOrg) -> None:
    with pytest.raises(QueryError) as caught:
        run(org, "SELECT Id, FullName FROM Account")
    assert caught.value.message.startswith(
        "\nSELECT Id, FullName FROM Account\n            ^\nERROR at Row:1:Column:12\nNo such column 'FullName' on "
    )
    with pytest.raises(QueryError, match="Row:2:Column:6"):
        run(org, "SELECT Id\nFROM Nope")


def test_a_hidden_object_does_not_exist_not_even_as_a_parent(org: EmulatedOrg) -> None:
    for soql in ("SELECT Id FROM User", "SELECT Owner.Name FROM Account"):
        with pytest.raises(QueryError):
            run(org, soql, hidden={"User"})


def test_thousands_of_ids_and_alternatives_are_no_problem(org: EmulatedOrg) -> None:
    known = str(next(org.records("Account"))["Id"])
    many = ", ".join(["'001000000000001'"] * 2000 + [f"'{known}'"])
    assert ids(org, f"Id IN ({many})") == [known]
    assert ids(org, " OR ".join(["Name = 'nobody'"] * 1500 + [f"Id = '{known}'"])) == [known]


@pytest.mark.parametrize(
    ("literal", "first", "after"),
    [
        ("YESTERDAY", "2025-02-02", "2025-02-03"),
        ("TOMORROW", "2025-02-04", "2025-02-05"),
        ("THIS_WEEK", "2025-02-02", "2025-02-09"),
        ("LAST_WEEK", "2025-01-26", "2025-02-02"),
        ("NEXT_MONTH", "2025-03-01", "2025-04-01"),
        ("LAST_QUARTER", "2024-10-01", "2025-01-01"),
        ("THIS_YEAR", "2025-01-01", "2026-01-01"),
        ("last_n_days:2", "2025-02-01", "2025-02-04"),
        ("NEXT_N_DAYS:2", "2025-02-04", "2025-02-06"),
        ("N_DAYS_AGO:3", "2025-01-31", "2025-02-01"),
    ],
)
def test_date_literals_are_spans_by_the_clock(literal: str, first: str, after: str) -> None:
    start, end = date_span(literal, NOW)
    assert (start.isoformat(), end.isoformat()) == (first, after)


# --- random conditions, evaluated by SQLite and by the few lines of Python below -------------------------------------

TEXTS = (None, "", "a", "A", "ab", "a%", "_b", "B\\", "ä", "Ä'b")
NUMBERS = (None, -1, 0, 5, 7)
DATES = (None, "2025-01-31", "2025-02-02", "2025-02-03", "2025-02-04")
MULTI = (None, "North", "East", "North;East", "South;West")


@dataclass(frozen=True)
class Test:
    """A comparison as SOQL text and as a Python predicate over a record."""

    __test__ = False
    soql: str
    holds: Any


def quote(text: str | None) -> str:
    return "null" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def ordered(operator: str, left: Any, right: Any) -> bool:
    if left is None:
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def simple(field: str, operator: str, literal: str, value: Any) -> Test:
    wanted = folded(value) or None if isinstance(value, str) else value
    if operator == "=":
        return Test(f"{field} = {literal}", lambda r: folded(r[field]) == wanted)
    if operator == "!=":
        return Test(f"{field} != {literal}", lambda r: folded(r[field]) != wanted)
    return Test(f"{field} {operator} {literal}", lambda r: ordered(operator, folded(r[field]), wanted))


def like(pattern: str) -> Test:
    literal = "'" + pattern.replace("'", "\\'") + "'"
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(part) or re.escape(part[-1].lower()) for part in parts)
    return Test(
        f"Site LIKE {literal}",
        lambda r: r["Site"] is not None and bool(re.fullmatch(regex, folded(r["Site"]), re.DOTALL)),
    )


def membership(field: str, operator: str, values: list[str | None]) -> Test:
    wanted = {folded(value) or None for value in values}
    literals = ", ".join(map(quote, values))
    if operator == "IN":
        return Test(f"{field} IN ({literals})", lambda r: folded(r[field]) in wanted)
    return Test(f"{field} NOT IN ({literals})", lambda r: folded(r[field]) not in wanted)


def multi_select(operator: str, choices: list[str]) -> Test:
    def included(record: dict[str, Any]) -> bool:
        held = set((record["Regions__c"] or "").split(";"))
        return any(set(choice.split(";")) <= held for choice in choices)

    literals = ", ".join(map(quote, choices))
    return Test(f"Regions__c {operator} ({literals})", lambda r: included(r) == (operator == "INCLUDES"))


ORDER = st.sampled_from(["<", "<=", ">", ">="])
EQUAL = st.sampled_from(["=", "!="])
TEXT = st.sampled_from(TEXTS)
KNOWN_TEXT = st.sampled_from([text for text in TEXTS if text])
COMPARISONS = st.one_of(
    st.builds(lambda op, v: simple("Site", op, quote(v), v), EQUAL, TEXT),
    st.builds(lambda op, v: simple("Site", op, quote(v), v), ORDER, KNOWN_TEXT),
    st.builds(
        lambda op, v: simple("NumberOfEmployees", op, "null" if v is None else str(v), v),
        EQUAL,
        st.sampled_from(NUMBERS),
    ),
    st.builds(lambda op, v: simple("NumberOfEmployees", op, str(v), v), ORDER, st.sampled_from(NUMBERS[1:])),
    st.builds(lambda op, v: simple("SLAExpirationDate__c", op, v or "null", v), EQUAL, st.sampled_from(DATES)),
    st.builds(lambda op, v: simple("SLAExpirationDate__c", op, v, v), ORDER, st.sampled_from(DATES[1:])),
    st.builds(lambda op, v: simple("Is_Partner__c", op, str(v), v), EQUAL, st.booleans()),
    st.builds(
        like, st.lists(st.sampled_from(["a", "B", "%", "_", "\\%", "\\_", "\\\\", "ä"]), max_size=4).map("".join)
    ),
    st.builds(membership, st.just("Site"), st.sampled_from(["IN", "NOT IN"]), st.lists(TEXT, min_size=1, max_size=3)),
    st.builds(
        multi_select,
        st.sampled_from(["INCLUDES", "EXCLUDES"]),
        st.lists(st.sampled_from([choice for choice in MULTI if choice]), min_size=1, max_size=2),
    ),
)


def negation(test: Test) -> Test:
    return Test(f"(NOT ({test.soql}))", lambda r: not test.holds(r))


def chain(operator: str, tests: list[Test]) -> Test:
    combine = all if operator == "AND" else any
    return Test(f"({f' {operator} '.join(t.soql for t in tests)})", lambda r: combine(t.holds(r) for t in tests))


CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(negation, inner),
        st.builds(chain, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)


@cache
def random_org() -> tuple[EmulatedOrg, list[dict[str, Any]]]:
    org = EmulatedOrg(clock=ManualClock(NOW), seed=11)
    fields = ("Site", "NumberOfEmployees", "SLAExpirationDate__c", "Regions__c", "Is_Partner__c")
    pools: tuple[tuple[Any, ...], ...] = (TEXTS, NUMBERS, DATES, MULTI, (True, False))
    with org.transaction() as work:
        for n in range(200):
            values = {
                field: pool[n * 7 // (k + 1) % len(pool)]
                for k, (field, pool) in enumerate(zip(fields, pools, strict=True))
            }
            work.create("Account", {"Name": f"n{n}", **values})
    return org, list(org.records("Account"))


@given(CONDITIONS)
def test_random_conditions_hold_for_the_same_records_as_in_python(condition: Test) -> None:
    org, records = random_org()
    assert ids(org, condition.soql) == [record["Id"] for record in records if condition.holds(record)], condition.soql


@given(st.text(alphabet="SELECTFROMWHIdName =<>'()%_*,;.:-+0123456789\\\n\"", max_size=60))
def test_no_text_at_all_makes_anything_but_a_query_error(text: str) -> None:
    org, _ = random_org()
    for soql in (text, f"SELECT Id FROM Account WHERE {text}", f"SELECT Id FROM Account WHERE Name = {text}"):
        with suppress(QueryError):
            run(org, soql)


def test_datetime_text_is_utc_with_milliseconds() -> None:
    assert datetime_text(NOW + 7, "+0000") == "2025-02-03T12:00:00.007+0000"
