"""SOQL against rows the test knows. Random queries are in `soql/test_random_queries.py`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.records.field_value import datetime_text
from sfcdc_assets.emulator.soql import parser
from sfcdc_assets.emulator.soql.compiler import compile_query
from sfcdc_assets.emulator.soql.date_literal import date_span
from sfcdc_assets.emulator.soql.parser import parse_query
from sfcdc_assets.emulator.soql.syntax import Query
from sfcdc_assets_tests.emulator.malformed.rest import LARGE_QUERIES
from sfcdc_assets_tests.emulator.soql.org_facts import org_facts

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
    # By the capital letters, of which all come before the low line.
    assert names(org, soql) == [None, None, "100%", "axb", "a_b"]
    assert names(org, soql + " DESC") == [None, None, "a_b", "axb", "100%"]
    assert names(org, soql + " DESC NULLS LAST LIMIT 2 OFFSET 1") == ["axb", "100%"]


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
        "SELECT Id FROM Account WHERE CreatedDate = LAST_FISCAL_MONTH",
        "SELECT Id FROM Account WHERE CreatedDate = LAST_N_DAYS",
        "SELECT COUNT() FROM Account ORDER BY Name",
        "SELECT COUNT() FROM Account GROUP BY Rating",
        "SELECT COUNT(Id) FROM Account HAVING COUNT(Id) > 1",
        "SELECT COUNT(Id) n, MAX(Name) n FROM Account",
        "SELECT Name, Owner.Name FROM Account GROUP BY Name, Owner.Name",
        "SELECT Rating, COUNT(Id) FROM Account GROUP BY ROLLUP(Rating)",
        "SELECT Rating, COUNT(Id) FROM Account GROUP BY CUBE(Rating)",
        "SELECT CALENDAR_YEAR(CreatedDate) FROM Account",
        "SELECT Id FROM Account WHERE convertTimezone(CreatedDate) = TODAY",
        "SELECT Rating FROM Account GROUP BY Rating HAVING Rating IN (SELECT Id FROM Contact)",
        f"SELECT Id FROM Account WHERE Name = '{'x' * 4_001}'",
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
        ("SELECT Id FROM Account WHERE AnnualRevenue = 1e999", "INVALID_FIELD", "Invalid value"),
        ("SELECT COUNT(Is_Partner__c) FROM Account", "INVALID_FIELD", "does not support aggregate operator COUNT"),
        ("SELECT Id FROM Account WHERE DAY_IN_WEEK(Name) = 1", "INVALID_FIELD", "does not support the date function"),
        ("SELECT Id FROM Account WHERE HOUR_IN_DAY(SLAExpirationDate__c) = 1", "INVALID_FIELD", "date function"),
        ("SELECT Id FROM Account WHERE CALENDAR_YEAR(CreatedDate) = THIS_YEAR", "INVALID_FIELD", "must be of type int"),
        ("SELECT Id FROM Account WHERE DAY_ONLY(CreatedDate) = TODAY", "INVALID_FIELD", "date literals"),
        (f"SELECT Id FROM Account WHERE {'(' * 101}Id = null{')' * 101}", "QUERY_TOO_COMPLICATED", "parentheses"),
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


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("Name = 'a' OR Id IN (SELECT AccountId FROM Contact)", "are not allowed with the 'OR' operator"),
        ("NOT Id IN (SELECT AccountId FROM Contact)", "are not allowed with the 'NOT' operator"),
        ("Name = 'a' AND (Site = 'b' OR Id IN (SELECT AccountId FROM Contact))", "only allowed at the top level"),
        (" AND ".join(["Id IN (SELECT AccountId FROM Contact)"] * 3), "Maximum 2 semi join sub-selects are allowed"),
        ("Id IN (SELECT ParentId FROM Account)", "should not be on the same object type"),
        ("Id IN (SELECT AccountId FROM Task)", "Entity 'Task' is not supported for semi join inner selects"),
        ("Id IN (SELECT Id FROM Contact)", "should point to the same object type"),
        ("Parent.Id IN (SELECT AccountId FROM Contact)", "cannot have more than one level of relationships"),
        ("Id IN (SELECT Account.ParentId FROM Contact)", "can only query id fields"),
        (
            "Id IN (SELECT AccountId FROM Contact WHERE OwnerId IN (SELECT Id FROM User))",
            "Nesting of semi join sub-selects is not supported",
        ),
    ],
)
def test_semi_joins_have_the_limits_of_salesforce(org: EmulatedOrg, where: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason.replace("(", r"\(")):
        run(org, f"SELECT Id FROM Account WHERE {where}")


def test_a_checkbox_is_never_null_not_even_that_of_no_parent(org: EmulatedOrg) -> None:
    assert len(ids(org, "Is_Partner__c = null")) == 4
    assert len(ids(org, "Is_Partner__c != null")) == 1
    assert len(ids(org, "Parent.Is_Partner__c = false")) == 5


def test_picklists_are_ordered_as_their_list_is(org: EmulatedOrg) -> None:
    with org.transaction() as work:
        work.create("Account", {"Name": "x", "Rating": "Awesome"})
        work.create("Account", {"Name": "y", "Rating": "Warm"})
    soql = "SELECT Rating FROM Account WHERE Rating != null ORDER BY Rating"
    assert names(org, soql) == ["Hot", "hot", "Warm", "Cold", "Awesome"]
    assert run(org, "SELECT MIN(Rating), MAX(Rating) FROM Account WHERE Rating != 'hot'") == [("Warm", "Awesome")]


def test_values_are_formatted_as_the_guide_shows_it(org: EmulatedOrg) -> None:
    first = str(next(org.records("Account"))["Id"])
    with org.transaction() as work:
        values = {"Credit_Limit__c": 44_000, "Discount__c": -2.5, "Next_Review__c": "2025-04-10T15:31:37Z"}
        work.update("Account", first, values | {"SLAExpirationDate__c": "2015-12-28", "Support_Opens__c": "00:05:00Z"})
    fields = ("Credit_Limit__c", "Discount__c", "Next_Review__c", "SLAExpirationDate__c", "Support_Opens__c", "Site")
    selected = ", ".join(f"FORMAT({field})" for field in fields)
    (row,) = run(org, f"SELECT {selected} FROM Account WHERE Id = '{first}'")
    assert row[1:] == ("$44,000.00", "-2.50%", "4/10/2025, 3:31 PM", "12/28/2015", "12:05 AM", None)
    assert run(org, "SELECT FORMAT(MAX(Credit_Limit__c)) most FROM Account") == [("$44,000.00",)]


def test_thousands_of_ids_and_alternatives_are_no_problem(org: EmulatedOrg) -> None:
    known = str(next(org.records("Account"))["Id"])
    many = ", ".join(["'001000000000001'"] * 2000 + [f"'{known}'"])
    assert ids(org, f"Id IN ({many})") == [known]
    assert ids(org, " OR ".join(["Name = 'nobody'"] * 1500 + [f"Id = '{known}'"])) == [known]


@pytest.mark.parametrize(
    ("literal", "first", "after"),
    [
        ("YESTERDAY", "2025-02-02", "2025-02-03"),
        ("TODAY", "2025-02-03", "2025-02-04"),
        ("LAST_90_DAYS", "2024-11-05", "2025-02-04"),
        ("NEXT_90_DAYS", "2025-02-04", "2025-05-05"),
        ("LAST_N_WEEKS:2", "2025-01-19", "2025-02-02"),
        ("NEXT_N_WEEKS:2", "2025-02-09", "2025-02-23"),
        ("N_WEEKS_AGO:2", "2025-01-19", "2025-01-26"),
        ("LAST_N_MONTHS:3", "2024-11-01", "2025-02-01"),
        ("NEXT_N_MONTHS:11", "2025-03-01", "2026-02-01"),
        ("N_MONTHS_AGO:2", "2024-12-01", "2025-01-01"),
        ("LAST_N_QUARTERS:2", "2024-07-01", "2025-01-01"),
        ("NEXT_N_FISCAL_QUARTERS:1", "2025-04-01", "2025-07-01"),
        ("N_FISCAL_QUARTERS_AGO:4", "2024-01-01", "2024-04-01"),
        ("LAST_N_YEARS:2", "2023-01-01", "2025-01-01"),
        ("NEXT_N_FISCAL_YEARS:2", "2026-01-01", "2028-01-01"),
        ("N_YEARS_AGO:25", "2000-01-01", "2001-01-01"),
        ("THIS_FISCAL_QUARTER", "2025-01-01", "2025-04-01"),
        ("LAST_FISCAL_YEAR", "2024-01-01", "2025-01-01"),
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


@given(st.text(alphabet="SELECTFROMWHIdName =<>'()%_*,;.:-+0123456789\\\n\"", max_size=60))
def test_no_text_at_all_makes_anything_but_a_query_error(text: str) -> None:
    org = org_facts().org
    for soql in (text, f"SELECT Id FROM Account WHERE {text}", f"SELECT Id FROM Account WHERE Name = {text}"):
        with suppress(QueryError):
            run(org, soql)


@pytest.mark.parametrize("soql", LARGE_QUERIES, ids=lambda soql: soql[:40])
def test_a_large_query_is_answered_or_refused(soql: str) -> None:
    with suppress(QueryError):
        run(org_facts().org, soql)


def test_datetime_text_is_utc_with_milliseconds() -> None:
    assert datetime_text(NOW + 7, "+0000") == "2025-02-03T12:00:00.007+0000"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Id, Name, Owner.Name FROM Account WHERE Name IN (SELECT Name, Id FROM Contact) ORDER BY Name LIMIT 5",
        "select Id ,Name,\n Account.Owner.Name\tfrom Contact c where c.Name like 'a, b FROM c'",
        "SELECT Limit, From, Where FROM Case",
        "SELECT Id, From FROM FROM",
        "SELECT Id, Name n, Site FROM Account GROUP BY Name",
        "SELECT Id, TYPEOF What WHEN Account THEN Phone END FROM Event",
        "SELECT Id, TypeOf FROM Event",
        "SELECT Id, (SELECT Id, Name FROM Contacts) FROM Account",
        "SELECT Id, Name FROM Account WHERE",
        "SELECT Id, Name FROM Account WHERE Name = 'a' OR Name = 'b' AND Id = null",
        "SELECT Id, , Name FROM Account",
        "SELECT Id, Name FROM",
        "SELECT Id, Näme FROM Account",
        "SELECT Id, a._b FROM Account",
    ],
)
def test_names_that_are_taken_apart_without_the_grammar_are_what_it_makes_of_them(text: str) -> None:
    assert outcome(lambda: parse_query(text)) == outcome(lambda: parser._parsed(text, text))


def outcome(work: Callable[[], Query]) -> Query | str:
    """A syntax tree, with the places of all its names, or what the error shows."""
    try:
        return work()
    except QueryError as error:
        return str(error)
