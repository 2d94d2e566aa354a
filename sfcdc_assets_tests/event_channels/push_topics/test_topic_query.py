"""The check of a topic's query, before it is sent: the guide's tables of queries, one row a case, and the emulated
org's own check, which knows SOQL whole, as the judge (Streaming API Developer Guide, "Working with PushTopics")."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.errors import QueryError
from sfcdc_assets.emulator.rest.describe import field_json, object_json
from sfcdc_assets.emulator.streaming.topic_query import topic_query as query_of_the_org
from sfcdc_assets.event_channels.push_topics.definition import NotifyForFields, PushTopic
from sfcdc_assets.event_channels.push_topics.described_query import DescribedQuery, described_query
from sfcdc_assets.event_channels.push_topics.errors import TopicNotSupported
from sfcdc_assets.event_channels.push_topics.soql_tokens import in_one_line
from sfcdc_assets.event_channels.push_topics.topic_query import TopicQuery, topic_query
from sfcdc_assets.salesforce.object_description import ObjectDescription

DEFINITIONS = {each.name: each for each in (*stock_definitions(), *built_in_definitions())}


def described(entity: str) -> ObjectDescription:
    definition = DEFINITIONS[next(name for name in DEFINITIONS if name.lower() == entity.lower())]
    fields = [field_json(field) for field in definition.fields]
    return ObjectDescription.from_json({**object_json(definition, ""), "fields": fields})


def checked(query: str, notify: NotifyForFields = NotifyForFields.REFERENCED) -> DescribedQuery:
    """The query as `sfcdc topics apply` checks it."""
    parsed = topic_query(query)
    return described_query(PushTopic("T", query, 64.0, notify_for_fields=notify), parsed, described(parsed.entity))


SUPPORTED = [
    ("SELECT Id, Status__c FROM Invoice_Statement__c", (), "Invoice_Statement__c"),
    ("SELECT Id, Name FROM Account WHERE NumberOfEmployees > 1000", ("NumberOfEmployees",), "Account"),
    ("SELECT Id, Name FROM Campaign WHERE Status = 'Planned'", ("Status",), "Campaign"),
    (
        "SELECT Id, Subject FROM Case WHERE Status = 'Working' AND ISEscalated = TRUE",
        ("Status", "IsEscalated"),
        "Case",
    ),
    ("SELECT Id, Name, Email FROM Contact;", (), "Contact"),
    ("SELECT Id, Company FROM Lead WHERE Industry = 'Computer Services'", ("Industry",), "Lead"),
    ("SELECT Id, Name, Amount FROM Opportunity WHERE CloseDate < 2011-06-14", ("CloseDate",), "Opportunity"),
    ("SELECT Id, Subject, IsClosed, Status FROM Task WHERE isClosed = TRUE", ("IsClosed",), "Task"),
    ("SELECT Id FROM Account WHERE Name != 'Salesforce.com'", ("Name",), "Account"),
    ("SELECT Id, Name FROM Account WHERE Name NOT IN ('A', 'B')", ("Name",), "Account"),
    ("SELECT Id, Name FROM Account WHERE Name = 'LIMIT 10 ORDER BY NOT (SELECT'", ("Name",), "Account"),
    (
        "select id, Phone from account where ((Site = 'a' or Site like 'x%') and (Phone != null))",
        ("Site", "Phone"),
        "Account",
    ),
    (
        "SELECT Id, Regions__c FROM Account WHERE Regions__c INCLUDES ('North;East', 'South')",
        ("Regions__c",),
        "Account",
    ),
    ("SELECT Id, Name FROM Account WHERE CreatedDate = LAST_N_DAYS:30", ("CreatedDate",), "Account"),
    ("SELECT Id, Name FROM Account WHERE AnnualRevenue >= -1.5e3", ("AnnualRevenue",), "Account"),
    ("SELECT Id, Revenue_Per_Employee__c FROM Account", (), "Account"),
    ("SELECT Id, Name FROM Account AS a", (), "Account"),
]


@pytest.mark.parametrize(("query", "compared", "entity"), SUPPORTED)
def test_what_the_guide_calls_supported_is_taken(query: str, compared: tuple[str, ...], entity: str) -> None:
    found = checked(query)
    assert (found.entity, tuple(field.name for field in found.compared)) == (entity, compared)
    query_of_the_org(query, DEFINITIONS, frozenset())


UNSUPPORTED = [
    ("SELECT Name FROM Account", "the Id field must be in the SELECT clause"),
    (
        "SELECT Id, Name FROM Account WHERE Id IN (SELECT AccountId FROM Contact WHERE Title = 'CEO')",
        "semi/anti join sub-selects are not supported",
    ),
    (
        "SELECT Id, Name FROM Account WHERE Id NOT IN (SELECT AccountId FROM Contact)",
        "semi/anti join sub-selects are not supported",
    ),
    ("SELECT Id, AVG(AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, AVG (AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, MAX(AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, MIN(AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, SUM(AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, Industry, Count(Name) FROM Account", "Aggregate queries are not supported"),
    ("SELECT COUNT() FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, Name FROM Contact LIMIT 10", "'LIMIT' is not allowed"),
    ("SELECT Id, Contact.Account.Name FROM Contact", "relationships are not supported"),
    ("SELECT Id, Account.Name FROM Contact", "relationships are not supported"),
    ("SELECT Id FROM Contact WHERE Account . Name = 'x'", "relationships are not supported"),
    ("SELECT Id, (SELECT Id FROM Contacts) FROM Account", "relationships are not supported"),
    (
        "SELECT Id, Name FROM Account WHERE Description = 'x'",
        "field Description is a text area and cannot be searched",
    ),
    ("SELECT Id, Name FROM Account ORDER BY Name", "'ORDER BY' clause is not allowed"),
    ("SELECT Id, AccountId FROM Contact GROUP BY AccountId", "Aggregate queries are not supported"),
    (
        "SELECT Id FROM Account WHERE Revenue_Per_Employee__c > 1",
        "formula field Revenue_Per_Employee__c is not supported in the WHERE clause",
    ),
    ("SELECT Id FROM Account WHERE NOT Name = 'Salesforce.com'", "'NOT' is not supported"),
    ("SELECT Id FROM Account WHERE Site = 'x' AND (NOT (Name = 'a'))", "'NOT' is not supported"),
    ("SELECT Id, Name FROM Account WHERE BillingCity = 'New York' OFFSET 10", "'OFFSET' clause is not allowed"),
    ("SELECT TYPEOF Owner WHEN User THEN LastName ELSE Name END FROM Case", "'TYPEOF' clause is not allowed"),
    ("SELECT Id, Username FROM User", "entity type User is not supported"),
    ("SELECT Id, Nothing FROM Account", "No such column 'Nothing'"),
    ("SELECT Id FROM Account", "needs at least one field other than Id"),
]

REFUSED_AS_SOQL = {
    "SELECT Id FROM Contact WHERE Account . Name = 'x'",
    "SELECT Id, (SELECT Id FROM Contacts) FROM Account",
    "SELECT Id, Name FROM Account WHERE Description = 'x'",
}
"""Refused by the emulated org's SOQL before it looks at them as queries of topics."""


@pytest.mark.parametrize(("query", "text"), UNSUPPORTED)
def test_what_the_guide_calls_unsupported_is_refused_with_its_text_and_what_to_change(query: str, text: str) -> None:
    with pytest.raises(TopicNotSupported) as refused:
        checked(query)
    assert (refused.value.field, refused.value.code) == ("Query", "INVALID_FIELD")
    assert text in refused.value.text
    assert refused.value.remedy
    if "NotifyForFields" not in refused.value.text:
        with pytest.raises(QueryError) as reported:
            query_of_the_org(query, DEFINITIONS, frozenset())
        if query not in REFUSED_AS_SOQL:
            assert text in reported.value.message, "the emulated org says the same"


def test_an_alias_of_the_object_is_no_relationship() -> None:
    assert topic_query("SELECT a.Id, Account.Name FROM Account a WHERE a.Site = 'x'") == TopicQuery(
        "Account", ("Id", "Name"), ("Site",)
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "unexpected end of query"),
        ("SELECT", "unexpected end of query"),
        ("SELECT Id", "unexpected end of query"),
        ("SELECT Id Name FROM Account", "unexpected token: 'Name'"),
        ("SELECT Id, FROM Account", "unexpected token: 'Account'"),
        ("SELECT Id FROM Account WHERE", "unexpected end of query"),
        ("SELECT Id FROM Account WHERE Name", "unexpected end of query"),
        ("SELECT Id FROM Account WHERE Name =", "unexpected end of query"),
        ("SELECT Id FROM Account WHERE Name = 'x", "unexpected token: ''x'"),
        ("SELECT Id FROM Account WHERE (Name = 'x'", "unexpected end of query"),
        ("SELECT Id FROM Account WHERE Name = 'x')", "unexpected token: ')'"),
        ("SELECT Id FROM Account WHERE Name IN 'x'", "unexpected token: ''x''"),
        ("SELECT Id FROM Account WHERE Name IN ('x'", "unexpected end of query"),
        ("SELECT Id FROM Account WHERE Name = 'x' AND", "unexpected end of query"),
        ("SELECT Id FROM Account WHERE " + "(" * 1_200, "unexpected end of query"),
        ("UPDATE Account", "unexpected token: 'UPDATE'"),
        ("SELECT Id FROM Account WHERE Name = {x}", "unexpected token: '{x}'"),
    ],
)
def test_what_is_no_query_is_refused_where_it_stops_being_one(query: str, text: str) -> None:
    with pytest.raises(TopicNotSupported) as refused:
        topic_query(query)
    assert (refused.value.code, refused.value.text) == ("MALFORMED_QUERY", text)


COMPOUNDS = [
    ("SELECT Id, Name FROM Contact", True),
    ("SELECT Id, Name, firstName, lastName FROM Contact", True),
    ("SELECT Id, firstName, lastName FROM Contact", False),
    ("SELECT Id, MailingAddress FROM Contact", False),
    ("SELECT Id, MailingAddress, MailingCity, MailingStreet FROM Contact", True),
    ("SELECT Id, MailingCity, MailingStreet FROM Contact", True),
    ("SELECT Id, Subject, IsClosed, Status FROM Task WHERE IsClosed = TRUE", True),
    ("SELECT Id, IsClosed FROM Task", False),
]


@pytest.mark.parametrize(("query", "is_supported"), COMPOUNDS)
def test_the_plan_warns_of_changes_that_nobody_would_notice(query: str, is_supported: bool) -> None:
    found = checked(query)
    assert (found.unnoticed(NotifyForFields.REFERENCED) == ()) is is_supported
    assert found.unnoticed(NotifyForFields.ALL) == (), "every change of the record is noticed"


def test_a_geolocation_is_noticed_by_its_parts() -> None:
    part = {"type": "double", "compoundFieldName": "location__c"}
    place = ObjectDescription.from_json(
        {
            "name": "Place__c",
            "custom": True,
            "fields": [
                {"name": "Id", "type": "id"},
                {"name": "location__c", "type": "location"},
                {"name": "location__latitude__s", **part},
                {"name": "location__longitude__s", **part},
            ],
        }
    )
    parts = ("location__latitude__s", "location__longitude__s")
    for selected, is_supported in (
        (("Id", "location__c"), False),
        (("Id", "location__c", *parts), True),
        (("Id", *parts), True),
    ):
        found = described_query(PushTopic("T", "", 64.0), TopicQuery("Place__c", selected), place)
        assert (found.unnoticed(NotifyForFields.REFERENCED) == ()) is is_supported
        assert list(found.columns()) == ["Id", *parts]


def test_the_columns_are_those_of_the_warehouse_with_compound_fields_as_their_parts() -> None:
    found = checked("SELECT Id, Name, Birthdate, HasOptedOutOfEmail, MailingAddress FROM Contact").columns()
    assert list(found)[:2] == ["Id", "Name"]
    assert {name: str(found[name]) for name in ("FirstName", "Birthdate", "HasOptedOutOfEmail", "MailingCity")} == {
        "FirstName": "string",
        "Birthdate": "date",
        "HasOptedOutOfEmail": "boolean",
        "MailingCity": "string",
    }
    assert "MailingAddress" not in found


@pytest.mark.parametrize(
    ("notify", "query", "is_enough"),
    [
        (NotifyForFields.ALL, "SELECT Id FROM Account", True),
        (NotifyForFields.REFERENCED, "SELECT Id FROM Account", False),
        (NotifyForFields.REFERENCED, "SELECT Id FROM Account WHERE Name = 'x'", True),
        (NotifyForFields.SELECT, "SELECT Id FROM Account WHERE Name = 'x'", False),
        (NotifyForFields.SELECT, "SELECT Id, Name FROM Account", True),
        (NotifyForFields.WHERE, "SELECT Id, Name FROM Account WHERE Id = '001000000000001AAA'", False),
        (NotifyForFields.WHERE, "SELECT Id FROM Account WHERE Name = 'x'", True),
    ],
)
def test_notify_for_fields_needs_a_field_to_look_at(notify: NotifyForFields, query: str, is_enough: bool) -> None:
    if is_enough:
        checked(query, notify)
    else:
        with pytest.raises(TopicNotSupported, match=f"NotifyForFields {notify} needs at least one field other than Id"):
            checked(query, notify)


def test_two_queries_that_differ_in_blanks_are_one() -> None:
    assert in_one_line("\nSELECT Id,\n  Name  FROM Account\nWHERE Name = 'a  b\\' c'  ;\n") == (
        "SELECT Id, Name FROM Account WHERE Name = 'a  b\\' c'"
    )


FIELDS = st.sampled_from(["Id", "Name", "Site", "Industry", "NumberOfEmployees", "Description", "Owner.Name", "Nope"])
CONDITIONS = st.recursive(
    st.sampled_from(
        [
            "Name = 'x'",
            "Site LIKE 'a%'",
            "NumberOfEmployees > 10",
            "Industry IN ('a', 'b')",
            "Site NOT IN ('NOT', 'LIMIT')",
            "Regions__c INCLUDES ('a;b')",
            "CreatedDate = TODAY",
            "Owner.Name = 'x'",
            "Id IN (SELECT AccountId FROM Contact)",
            "Name = 'it\\'s ('",
            "CALENDAR_YEAR(CreatedDate) = 2020",
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"(NOT {one})"),
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map(lambda parts: f"({''.join(parts)})"),
    ),
    max_leaves=4,
)
CLAUSES = st.sampled_from(["", "", ";", " LIMIT 1", " ORDER BY Name", " OFFSET 2", " GROUP BY Name", " nonsense"])


@settings(max_examples=200, deadline=None)
@given(st.lists(FIELDS, min_size=1, max_size=4), st.none() | CONDITIONS, CLAUSES)
def test_nothing_is_refused_that_the_org_would_take(selected: list[str], condition: str | None, clause: str) -> None:
    query = f"SELECT {', '.join(selected)} FROM Account" + (f" WHERE {condition}" if condition else "") + clause
    try:
        checked(query, NotifyForFields.ALL)
    except TopicNotSupported:
        with pytest.raises(QueryError):
            query_of_the_org(query, DEFINITIONS, frozenset())


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="SELECTFROMWH idName(),;='\\ 10.:<>!\n", max_size=60))
def test_any_text_is_taken_or_refused_in_words(text: str) -> None:
    with suppress(TopicNotSupported):
        assert topic_query(text).selected


@pytest.mark.parametrize("blanks", ["", " ", "\n\t", "\x0c\x0c"])
def test_blanks_around_a_dot_are_no_part_of_a_name(blanks: str) -> None:
    query = f"SELECT a{blanks}.{blanks}Id FROM Account{blanks}.t a"
    assert topic_query(query) == topic_query(in_one_line(query)) == topic_query("SELECT a.Id FROM Account.t a")
