"""PushTopics of the emulated org: the guide's tables of queries and rules, one row a case (Streaming API Developer
Guide, "Working with PushTopics" and "PushTopic")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.errors import ApiError, QueryError
from sfcdc_assets.emulator.org.ids import to_15
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets.emulator.streaming.push_topics import PushTopics
from sfcdc_assets.emulator.streaming.subscription_filter import MalformedFilterError, SubscriptionFilter
from sfcdc_assets_tests.emulator.cometd_service.emulated import Emulated, replay_ids

TOPIC = "/topic/Accounts"


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    with closing(Emulated()) as emulated:
        yield emulated


@pytest.fixture(scope="module")
def topics() -> Iterator[PushTopics]:
    """For queries that are only checked."""
    emulated = Emulated()
    yield emulated.service.topics.push_topics
    emulated.org.close()


def create(emulated: Emulated, query: str, **values: Any) -> str:
    topic = {"Name": "Accounts", "Query": query, "ApiVersion": 60.0, **values}
    return emulated.service.topics.push_topics.create(topic).id


def follow(emulated: Emulated, channel: str = TOPIC, place: int = -1) -> None:
    emulated.handshake()
    reply = emulated.subscribe(channel, place)
    assert reply["successful"], reply


def messages(emulated: Emulated) -> list[dict[str, Any]]:
    return [each["data"] for each in emulated.connect(advice={"timeout": 0}) if "data" in each]


def kinds(emulated: Emulated) -> list[str]:
    return [each["event"]["type"] for each in messages(emulated)]


SUPPORTED = [
    "SELECT Id, Name FROM Invoice_Statement__c",
    "SELECT Id, Name FROM Account WHERE NumberOfEmployees > 1000",
    "SELECT Id, Subject FROM Case WHERE Status = 'Working' AND IsEscalated = TRUE",
    "SELECT Id, Name, Email FROM Contact;",
    "SELECT Id, Company FROM Lead WHERE Industry = 'Computer Services'",
    "SELECT Id, Name, Amount FROM Opportunity WHERE CloseDate < 2011-06-14",
    "SELECT Id, Subject, IsClosed, Status FROM Task WHERE Status = 'Completed'",
    "SELECT Id FROM Account WHERE Name != 'Salesforce.com'",
    "SELECT Id, Name FROM Account WHERE Name NOT IN ('A', 'B')",
    "SELECT Id, Name FROM Account WHERE Name = 'LIMIT 10 ORDER BY NOT (SELECT'",
]


@pytest.mark.parametrize("query", SUPPORTED)
def test_queries_that_the_guide_calls_supported(topics: PushTopics, query: str) -> None:
    topic = topics.create({"Name": "Supported", "Query": query, "ApiVersion": 60})
    topics.delete(topic.id)


def test_a_query_is_checked_again_only_when_its_object_has_changed(emulated: Emulated) -> None:
    """Each commit asks for it."""
    create(emulated, "SELECT Id, Name FROM Account")
    topics, org = emulated.service.topics.push_topics, emulated.org
    (topic,) = topics.all()
    found, account = topics.query_of(topic), org.definitions["Account"]
    assert topics.query_of(topic) is found
    org.replace_definition(replace(account, fields=tuple(field for field in account.fields if field.name != "Name")))
    with pytest.raises(QueryError, match="Name"):
        topics.query_of(topic)
    org.replace_definition(account)
    assert topics.query_of(topic) == found


UNSUPPORTED = [
    ("SELECT Name FROM Account", "the Id field must be in the SELECT clause"),
    (
        "SELECT Id, Name FROM Account WHERE Id IN (SELECT AccountId FROM Contact WHERE Title = 'CEO')",
        "semi/anti join sub-selects are not supported",
    ),
    ("SELECT Id, AVG(AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, AVG (AnnualRevenue) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, Industry, Count(Name) FROM Account", "Aggregate queries are not supported"),
    ("SELECT Id, Name FROM Contact LIMIT 10", "'LIMIT' is not allowed"),
    ("SELECT Id, Account.Name FROM Contact", "relationships are not supported"),
    ("SELECT Id, Name FROM Account ORDER BY Name", "'ORDER BY' clause is not allowed"),
    ("SELECT Id, AccountId FROM Contact GROUP BY AccountId", "Aggregate queries are not supported"),
    ("SELECT Id FROM Account WHERE NOT Name = 'Salesforce.com'", "'NOT' is not supported"),
    ("SELECT Id, Name FROM Account WHERE BillingCity = 'New York' OFFSET 10", "'OFFSET' clause is not allowed"),
    ("SELECT TYPEOF Owner WHEN User THEN LastName ELSE Name END FROM Case", "'TYPEOF' clause is not allowed"),
    ("SELECT Id, Username FROM User", "entity type User is not supported"),
    ("SELECT Id, Nothing FROM Account", "No such column 'Nothing'"),
    ("SELECT Id FROM Account", "needs at least one field other than Id"),
]


@pytest.mark.parametrize(("query", "message"), UNSUPPORTED)
def test_queries_that_the_guide_calls_unsupported(topics: PushTopics, query: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        topics.create({"Name": "Unsupported", "Query": query, "ApiVersion": 60})
    assert refused.value.error_code == "INVALID_FIELD"
    assert message in refused.value.message
    assert topics.all() == []


GOOD = {"Name": "Good", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"Name": "x" * 26}, "STRING_TOO_LONG", "max length=25"),
    (
        {"Query": "SELECT Id, Name FROM Account WHERE CALENDAR_YEAR(CreatedDate) = 2020"},
        "MALFORMED_QUERY",
        "unexpected token: 'CALENDAR_YEAR'",
    ),
    ({"Name": None}, "REQUIRED_FIELD_MISSING", "[Name]"),
    ({"Query": ""}, "REQUIRED_FIELD_MISSING", "[Query]"),
    ({"ApiVersion": None}, "REQUIRED_FIELD_MISSING", "[ApiVersion]"),
    ({"ApiVersion": 20.0}, "FIELD_INTEGRITY_EXCEPTION", "greater than 20.0"),
    ({"Query": GOOD["Query"] + " " * 1_300}, "STRING_TOO_LONG", "max length=1300"),
    ({"Description": "x" * 401}, "STRING_TOO_LONG", "max length=400"),
    ({"NotifyForFields": "Some"}, "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", "Some"),
    ({"Colour": "red"}, "INVALID_FIELD", "No such column 'Colour'"),
    (
        {"NotifyForFields": "Select", "Query": "SELECT Id FROM Account WHERE Name = 'A'"},
        "INVALID_FIELD",
        "SELECT clause",
    ),
    ({"NotifyForFields": "Where"}, "INVALID_FIELD", "WHERE clause"),
]


@pytest.mark.parametrize(("values", "code", "message"), BAD)
def test_a_topic_that_is_not_right_is_refused_and_not_created(
    topics: PushTopics, values: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(ApiError) as refused:
        topics.create({**GOOD, **values})
    assert refused.value.error_code == code
    assert message in refused.value.message
    assert topics.all() == []


def test_a_name_is_one_topics(topics: PushTopics) -> None:
    topic = topics.create(GOOD)
    with pytest.raises(ApiError, match=f"duplicates value on record with id: {topic.id}"):
        topics.create({**GOOD, "Name": "GOOD"})
    topics.update(topic.id, {"Name": "good"})
    topics.delete(topic.id)


WHERE = "WHERE Site = 'abc' AND Industry = 'Energy'"
BOTH = {"Site": "abc", "Industry": "Energy"}
IDS = "Id IN ('{0}')"
RULES: list[tuple[str, str, dict[str, Any], dict[str, Any], bool]] = [
    # NotifyForFields, query, the record before, the change, and whether it is reported
    ("All", "SELECT Id, Name, Phone FROM Account", {}, {"Fax": "1"}, True),
    ("All", f"SELECT Id, Name FROM Account {WHERE}", BOTH, {"Fax": "1"}, True),
    ("All", f"SELECT Id, Name FROM Account {WHERE}", {**BOTH, "Site": "x"}, {"Fax": "1"}, False),
    ("All", "SELECT Id FROM Account", {}, {"Fax": "1"}, True),
    ("All", f"SELECT Id FROM Account {WHERE}", BOTH, {"Fax": "1"}, True),
    ("All", f"SELECT Id FROM Account WHERE {IDS}", {}, {"Fax": "1"}, True),
    ("All", "SELECT Id, Name FROM Account WHERE Id IN ('001000000000001AAA')", {}, {"Fax": "1"}, False),
    ("Referenced", "SELECT Id, Name, Phone FROM Account", {}, {"Phone": "1"}, True),
    ("Referenced", "SELECT Id, Name, Phone FROM Account", {}, {"Fax": "1"}, False),
    ("Referenced", f"SELECT Id, Phone FROM Account {WHERE}", BOTH, {"Phone": "1"}, True),
    ("Referenced", f"SELECT Id, Phone FROM Account {WHERE}", {"Site": "abc"}, {"Industry": "Energy"}, True),
    ("Referenced", f"SELECT Id, Phone FROM Account {WHERE}", BOTH, {"Fax": "1"}, False),
    ("Referenced", f"SELECT Id FROM Account {WHERE}", {"Site": "abc"}, {"Industry": "Energy"}, True),
    ("Referenced", f"SELECT Id, Phone FROM Account WHERE {IDS}", {}, {"Phone": "1"}, True),
    ("Referenced", f"SELECT Id, Phone FROM Account {WHERE} AND {IDS}", BOTH, {"Phone": "1"}, True),
    ("Referenced", f"SELECT Id, Phone FROM Account {WHERE}", BOTH, {"Site": "left"}, False),
    ("Select", "SELECT Id, Name, Phone FROM Account", {}, {"Phone": "1"}, True),
    ("Select", f"SELECT Id, Phone FROM Account {WHERE}", BOTH, {"Phone": "1"}, True),
    ("Select", f"SELECT Id, Phone FROM Account {WHERE}", {"Site": "abc"}, {"Industry": "Energy"}, False),
    ("Select", f"SELECT Id, Phone FROM Account WHERE {IDS}", {}, {"Phone": "1"}, True),
    ("Where", f"SELECT Id, Phone FROM Account {WHERE}", {"Site": "abc"}, {"Industry": "Energy"}, True),
    ("Where", f"SELECT Id, Phone FROM Account {WHERE}", BOTH, {"Phone": "1"}, False),
    ("Where", f"SELECT Id FROM Account {WHERE}", BOTH, {"Site": "left"}, False),
    ("Where", f"SELECT Id FROM Account {WHERE} AND {IDS}", {"Site": "abc"}, {"Industry": "Energy"}, True),
]


@pytest.mark.parametrize(("notify", "query", "before", "change", "is_reported"), RULES)
def test_an_update_is_reported_by_the_rules_of_notify_for_fields(
    emulated: Emulated, notify: str, query: str, before: dict[str, Any], change: dict[str, Any], is_reported: bool
) -> None:
    emulated.update(**{"Site": None, "Industry": None, "Phone": "0", "Fax": "0", **before})
    create(emulated, query.format(emulated.accounts[0]), NotifyForFields=notify)
    follow(emulated)
    emulated.update(**change)
    assert kinds(emulated) == ["updated"] * is_reported


COMPOUNDS = [
    ("Contact", "SELECT Id, Name FROM Contact", {"FirstName": "Ada"}, True),
    ("Contact", "SELECT Id, Name, FirstName, LastName FROM Contact", {"FirstName": "Ada"}, True),
    ("Contact", "SELECT Id, FirstName, LastName FROM Contact", {"FirstName": "Ada"}, False),
    ("Contact", "SELECT Id, MailingAddress FROM Contact", {"MailingCity": "Bonn"}, False),
    ("Contact", "SELECT Id, MailingAddress, MailingCity, MailingStreet FROM Contact", {"MailingCity": "Bonn"}, True),
    ("Contact", "SELECT Id, MailingCity, MailingStreet FROM Contact", {"MailingCity": "Bonn"}, True),
]


@pytest.mark.parametrize(("entity", "query", "change", "is_reported"), COMPOUNDS)
def test_compound_fields_are_noticed_as_the_guide_has_it(
    emulated: Emulated, entity: str, query: str, change: dict[str, Any], is_reported: bool
) -> None:
    create(emulated, query)
    follow(emulated)
    record_id = str(next(iter(emulated.org.records(entity)))["Id"])
    with emulated.org.transaction() as work:
        work.update(entity, record_id, change)
    assert kinds(emulated) == ["updated"] * is_reported


def test_creates_deletes_and_undeletes_are_reported_where_the_record_matches(emulated: Emulated) -> None:
    create(emulated, "SELECT Id, Name FROM Account WHERE Industry = 'Energy'")
    follow(emulated)
    with emulated.org.transaction() as work:
        matching = work.create("Account", {"Name": "In", "Industry": "Energy"})
        other = work.create("Account", {"Name": "Out"})
    (created,) = messages(emulated)
    assert created["event"].keys() == {"createdDate", "type", "replayId"}
    assert created["event"]["createdDate"] == "2025-01-01T00:00:00.000Z"
    assert (created["event"]["type"], created["sobject"]) == ("created", {"Id": matching, "Name": "In"})
    for record in (matching, other):
        with emulated.org.transaction() as work:
            work.delete("Account", record)
        with emulated.org.transaction() as work:
            work.undelete("Account", record)
    deleted, undeleted = messages(emulated)
    assert (deleted["event"]["type"], deleted["sobject"]) == ("deleted", {"Id": matching})
    assert (undeleted["event"]["type"], undeleted["sobject"]) == ("undeleted", {"Id": matching, "Name": "In"})


@pytest.mark.parametrize("operation", ["Create", "Update", "Delete", "Undelete"])
def test_an_operation_that_is_switched_off_is_not_reported(emulated: Emulated, operation: str) -> None:
    create(emulated, "SELECT Id, Name FROM Account", **{f"NotifyForOperation{operation}": False})
    follow(emulated)
    with emulated.org.transaction() as work:
        record = work.create("Account", {"Name": "A"})
    for name, values in (("update", {"Name": "B"}), ("delete", None), ("undelete", None)):
        with emulated.org.transaction() as work:
            getattr(work, name)("Account", record, *([values] if values else []))
    reported = ["created", "updated", "deleted", "undeleted"]
    reported.remove({"Create": "created", "Update": "updated", "Delete": "deleted", "Undelete": "undeleted"}[operation])
    assert kinds(emulated) == reported


def test_a_notification_ends_a_connect_that_is_held_and_is_one_however_many_servers_the_org_had(
    emulated: Emulated,
) -> None:
    replaced = CometdService(emulated.org, emulated.service.bus, sessions=Sessions(emulated.org), meter=emulated.meter)
    create(emulated, "SELECT Id, Name FROM Account")
    emulated.service, before = replaced, emulated.service
    replaced.topics.push_topics.update(before.topics.push_topics.all()[0].id, {"Description": "known to both"})
    follow(emulated)
    emulated.connect()
    held = emulated.held()
    emulated.update(Name="A")
    assert [each["data"]["event"]["type"] for each in held.answer() if "data" in each] == ["updated"]


def test_field_level_security_leaves_selected_fields_out_and_refuses_a_topic_that_compares_hidden_ones(
    emulated: Emulated,
) -> None:
    create(emulated, "SELECT Id, Name, Phone FROM Account WHERE Site != 'x'")
    follow(emulated)
    emulated.org.field_security.hide("Account", "Phone")
    emulated.update(Name="A")
    (message,) = messages(emulated)
    assert message["sobject"].keys() == {"Id", "Name"}
    emulated.org.field_security.hide("Account", "Site")
    emulated.update(Name="B")
    assert messages(emulated) == [], "nothing is sent any more"
    emulated.handshake()
    assert emulated.subscribe(TOPIC)["error"].endswith(
        "does not have access to the fields referenced in the where clause"
    )
    emulated.org.unreadable_objects.add("Account")
    assert emulated.subscribe(TOPIC)["error"] == "403::Subscriber does not have access to the entity in this topic"
    emulated.org.unreadable_objects.add("PushTopic")
    assert emulated.subscribe(TOPIC)["error"] == "403::No access on channel"


def test_a_topic_is_replayed_for_24_hours_with_ids_of_its_own(emulated: Emulated) -> None:
    create(emulated, "SELECT Id, Name FROM Account")
    for name in "abc":
        emulated.update(Name=name)
    follow(emulated, place=-2)
    ids = replay_ids(emulated.connect())
    assert len(ids) == 3
    follow(emulated, place=ids[0])
    assert replay_ids(emulated.connect()) == ids[1:]
    emulated.clock.advance(25 * 3_600_000)
    emulated.handshake()
    assert "you provided was invalid" in emulated.subscribe(TOPIC, ids[0])["error"]
    follow(emulated, place=-2)
    assert messages(emulated) == []


def test_a_new_query_counts_at_once_and_a_new_name_for_new_subscriptions(emulated: Emulated) -> None:
    topic = create(emulated, "SELECT Id, Name FROM Account")
    follow(emulated)
    topics = emulated.service.topics.push_topics
    topics.update(topic, {"Query": "SELECT Id, Phone FROM Account", "Name": "Renamed"})
    emulated.update(Name="not selected any more")
    emulated.update(Phone="1")
    (message,) = messages(emulated)
    assert message["sobject"].keys() == {"Id", "Phone"}
    assert emulated.subscribe(TOPIC)["error"] == "404::Unknown channel"
    assert emulated.subscribe("/topic/renamed")["error"] == "404::Channel names may not vary only by case"
    assert emulated.subscribe("/topic/Renamed")["successful"]
    topics.update(topic, {"IsActive": False})
    emulated.update(Phone="2")
    assert messages(emulated) == []


def test_a_filtered_subscription_lets_through_what_fulfils_any_of_its_conditions(emulated: Emulated) -> None:
    create(emulated, "SELECT Id, Name, Industry, ShippingCity FROM Account")
    channel = f"{TOPIC}?Industry='Energy'&ShippingCity='San Francisco'"
    emulated.update(Industry=None, ShippingCity=None)
    follow(emulated, channel)
    for values in ({"Industry": "Energy"}, {"Industry": "Banking"}, {"ShippingCity": "San Francisco"}):
        emulated.update(**values)
    assert [each["sobject"]["Industry"] for each in messages(emulated)] == ["Energy", "Banking"]
    by_id = f"{TOPIC}?Id='{emulated.accounts[0]}'"
    follow(emulated, by_id)
    emulated.update(Name="x")
    (message,) = [each for each in emulated.connect(advice={"timeout": 0}) if "data" in each]
    assert message["channel"] == by_id
    follow(emulated, f"{TOPIC}?Id='{to_15(emulated.accounts[0])}'")
    emulated.update(Name="y")
    assert messages(emulated) == [], "ids have 18 characters"
    assert (
        emulated.subscribe(f"{TOPIC}?Phone='1'")["error"] == "400::Query fields Phone do not exist on the topic entity"
    )
    assert "malformed" in emulated.subscribe(f"{TOPIC}?Industry")["error"]
    emulated.handshake()
    reply = emulated.send("/meta/subscribe", subscription=channel, ext={"replay": {TOPIC: -2}})
    assert reply["successful"], "the map of places knows the channel without its filter"
    assert len(messages(emulated)) == 4, "the two of before, and those of the last updates"


@pytest.mark.parametrize(
    ("expression", "conditions"),
    [
        ("A='x'", [("A", "x")]),
        ("A='x'&B=7", [("A", "x"), ("B", "7")]),
        (r"A='O\'Neil & Co'", [("A", "O'Neil & Co")]),
        ("A = 'x' & B = true", [("A", "x"), ("B", "true")]),
    ],
)
def test_filters_are_conditions_joined_by_and_signs(expression: str, conditions: list[tuple[str, str]]) -> None:
    assert SubscriptionFilter.of(expression).conditions == tuple(conditions)


@pytest.mark.parametrize("expression", ["", "A", "A=", "A='x", "A>1", "A='x' OR B='y'", "='x'"])
def test_another_expression_is_malformed(expression: str) -> None:
    with pytest.raises(MalformedFilterError):
        SubscriptionFilter.of(expression)


def test_a_number_and_a_truth_are_compared_as_they_are_written() -> None:
    wanted = SubscriptionFilter.of("Amount=10&IsWon=true")
    assert wanted.lets_through({"Amount": 10.0, "IsWon": False})
    assert wanted.lets_through({"amount": 9.5, "iswon": True})
    assert not wanted.lets_through({"Amount": None, "IsWon": False})
