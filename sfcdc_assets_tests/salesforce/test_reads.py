"""Describe, query, count, retrieve, limits and channel members against scripted answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.org_reads.records_by_id import read_back
from sfcdc_assets.salesforce.channel_members import ChannelMembers, Member, channel_members, entity_of_change_event
from sfcdc_assets.salesforce.describe import describe, describe_whole
from sfcdc_assets.salesforce.errors import (
    EntityNotReadable,
    OrgUnavailable,
    QueryRefused,
    RequestRefused,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.limits import limits, record_counts
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.object_shape import SHAPE_TABLES
from sfcdc_assets.salesforce.query import count, query_rows
from sfcdc_assets.salesforce.record_id import eighteen_characters
from sfcdc_assets.salesforce.retrieve import retrieve
from sfcdc_assets_tests.salesforce.scripted_org import Answer, refusal

ACCOUNT = {
    "name": "Account",
    "label": "Account",
    "keyPrefix": "001",
    "custom": False,
    "queryable": True,
    "urls": {"sobject": "/services/data/v64.0/sobjects/Account"},
    "fields": [
        {"name": "Id", "type": "id", "length": 18, "nillable": False, "byteLength": 18},
        {"name": "BillingCity", "type": "string", "length": 40, "compoundFieldName": "BillingAddress"},
        {"name": "OwnerId", "type": "reference", "referenceTo": ["User"], "relationshipName": "Owner"},
        {"name": "Score__c", "type": "double", "precision": 18, "scale": 2, "calculated": True, "custom": True},
    ],
}
RECORD = {"attributes": {"type": "Account", "url": "/services/data/v64.0/sobjects/Account/x"}}


def ids(number: int) -> list[str]:
    return [eighteen_characters(f"001Ab{n:010d}") for n in range(number)]


def test_a_description_keeps_the_raw_shape_and_only_what_columns_need(org, session):
    org.on("GET", "sobjects/Account/describe", Answer(200, ACCOUNT))
    description = describe(session, "Account")
    stored = description.to_json()
    assert [field["name"] for field in stored["fields"]] == ["Id", "BillingCity", "OwnerId", "Score__c"]
    assert stored["fields"][1]["compoundFieldName"] == "BillingAddress"
    assert stored["fields"][2]["referenceTo"] == ["User"]
    assert (stored["fields"][3]["calculated"], stored["fields"][3]["scale"]) == (True, 2)
    assert stored["keyPrefix"] == "001"
    assert "urls" not in stored
    assert "byteLength" not in stored["fields"][0]
    assert ObjectDescription.from_json(stored) == description


def test_labels_that_a_form_cut_within_a_character_fit_the_tables_of_what_objects_look_like(org, session) -> None:
    field = {"name": "Mood__c", "type": "picklist", "label": "Mood \ud83d", "inlineHelpText": "\ud83d\ude00"}
    values = [{"value": "good", "label": "Good \ud83d", "active": True}]
    answer = {"name": "Account", "label": "Account \ude00", "fields": [{**field, "picklistValues": values}]}
    org.on("GET", "sobjects/Account/describe", Answer(200, answer))
    found = describe_whole(session, "Account")
    for table in SHAPE_TABLES:
        pa.Table.from_pylist(list(found.shape.rows[table.name]), schema=table.schema)
    assert found.object.label == "Account \ufffd"
    assert found.object.words_for("Mood__c") == "Mood \ufffd: \U0001f600"
    assert [each["label"] for each in found.shape.rows["picklist_values"]] == ["Good \ufffd"]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "NOT_FOUND", "The requested resource does not exist"),
        refusal(403, "INSUFFICIENT_ACCESS", "no"),
        Answer(200, {**ACCOUNT, "queryable": False}),
    ],
)
def test_an_entity_that_cannot_be_read_names_the_permission_and_the_setting(org, session, answer):
    org.on("GET", "sobjects/Account/describe", answer)
    with pytest.raises(
        EntityNotReadable, match=r"Account cannot be read.*View All Records.*SFCDC_ENTITIES.*SFCDC_POLL"
    ):
        describe(session, "Account")


@pytest.mark.parametrize("body", [[], {"name": "Account"}, {"name": "A", "fields": [{}]}, {"name": "A", "fields": 3}])
def test_an_answer_that_describes_nothing_is_reported(org, session, body):
    org.on("GET", "sobjects/Account/describe", Answer(200, body))
    with pytest.raises(UnexpectedAnswer):
        describe(session, "Account")


def test_rows_come_lazily_over_locators_without_attributes(org, session):
    more = "/services/data/v64.0/query/0r8000000000001AAA-2"
    rows = [{**RECORD, "Id": name} for name in "abc"]
    org.on("GET", "query/", Answer(200, {"done": False, "nextRecordsUrl": more, "records": rows[:2], "totalSize": 3}))
    org.on("GET", more, Answer(200, {"done": True, "records": rows[2:], "totalSize": 3}))
    found = query_rows(session, "SELECT Id FROM Account")
    assert next(found) == {"Id": "a"}
    assert org.requests("GET", more) == []
    assert list(found) == [{"Id": "b"}, {"Id": "c"}]
    assert org.requests("GET", "query/")[0].query == {"q": "SELECT Id FROM Account"}


def test_deleted_rows_are_asked_for_by_query_all(org, session):
    org.on("GET", "queryAll/", Answer(200, {"done": True, "records": [], "totalSize": 0}))
    assert list(query_rows(session, "SELECT Id FROM Account", include_deleted=True)) == []


@pytest.mark.parametrize("following", [None, 7, "https://elsewhere.example/x", "//elsewhere.example/x"])
def test_a_next_page_that_is_no_path_of_the_org_is_not_followed(org, session, following):
    org.on("GET", "query/", Answer(200, {"done": False, "records": [], "nextRecordsUrl": following}))
    with pytest.raises(UnexpectedAnswer):
        list(query_rows(session, "SELECT Id FROM Account"))


def test_a_refused_query_carries_the_query_and_the_reason_on_one_line(org, session):
    many = ", ".join(f"Field_{number}__c" for number in range(100))
    text = f"\nSELECT {many}, Nope FROM Account\n           ^\nERROR at Row:1:Column:12\nNo such column 'Nope'"
    org.on("GET", "query/", refusal(400, "INVALID_FIELD", text))
    with pytest.raises(QueryRefused, match=r"INVALID_FIELD: No such column 'Nope'. The query was: SELECT") as caught:
        list(query_rows(session, f"SELECT {many}, Nope FROM Account"))
    assert "\n" not in str(caught.value)
    assert caught.value.error_code == "INVALID_FIELD"


def test_an_object_that_the_user_does_not_see_is_no_matter_of_fields(org, session):
    text = "\nSELECT Id FROM Account\n               ^\nERROR at Row:1:Column:16\nsObject type 'Account' is wrong."
    org.on("GET", "query/", refusal(400, "INVALID_TYPE", text))
    with pytest.raises(QueryRefused, match=r"sObject type 'Account' is wrong\..* View All Records") as caught:
        list(query_rows(session, "SELECT Id FROM Account"))
    assert "field" not in str(caught.value)


def test_a_count_is_one_request(org, session):
    org.on("GET", "query/", Answer(200, {"done": True, "records": [], "totalSize": 50_000}))
    assert count(session, "Account", "Name != null") == 50_000
    assert org.requests("GET", "query/")[0].query == {"q": "SELECT COUNT() FROM Account WHERE Name != null"}


def test_counting_an_unknown_entity_says_it_cannot_be_read(org, session):
    org.on("GET", "queryAll/", refusal(400, "INVALID_TYPE", "sObject type 'Nope__c' is not supported."))
    with pytest.raises(EntityNotReadable, match="Nope__c cannot be read"):
        count(session, "Nope__c", include_deleted=True)


def test_missing_records_are_none_and_repeated_ids_cost_nothing(org, session):
    here, gone = ids(2)
    org.on("POST", "composite/sobjects/Account", Answer(200, [{**RECORD, "Id": here, "Name": "Acme"}, None]))
    found = retrieve(session, "Account", [here, gone, here], ["Name"])
    assert found.rows == {here: {"Id": here, "Name": "Acme"}, gone: None}
    assert org.requests("POST", "composite/sobjects/Account")[0].json == {"ids": [here, gone], "fields": ["Name"]}


def test_ids_are_sent_two_thousand_at_a_time(org, session):
    wanted = ids(4001)
    org.on(
        "POST",
        "composite/sobjects/Account",
        Answer(200, [None] * 2000),
        Answer(200, [None] * 2000),
        Answer(200, [None]),
    )
    assert set(retrieve(session, "Account", wanted, ["Name"]).rows) == set(wanted)
    assert [len(seen.json["ids"]) for seen in org.requests("POST", "composite/sobjects/Account")] == [2000, 2000, 1]


@pytest.mark.parametrize(
    "too_much",
    [
        *(Answer(status, b"too long") for status in (413, 414, 431)),
        refusal(400, "QUERY_TIMEOUT", "Your query request was running for too long."),
    ],
)
def test_a_call_that_is_too_much_for_the_org_is_split_in_halves(org, session, too_much):
    org.on("POST", "composite/sobjects/Account", too_much, Answer(200, [None]), Answer(200, [None, None]))
    assert retrieve(session, "Account", ids(3), ["Name"]).rows == dict.fromkeys(ids(3))
    assert [len(seen.json["ids"]) for seen in org.requests("POST", "composite/sobjects/Account")] == [3, 1, 2]


def test_a_call_that_is_too_slow_is_split_after_two_tries(org, session, slept):
    slow = [Answer(504, b"")] * 2
    org.on("POST", "composite/sobjects/Account", *slow, Answer(200, [None]), Answer(200, [None]))
    assert retrieve(session, "Account", ids(2), ["Name"]).rows == dict.fromkeys(ids(2))
    assert len(slept) == 1


def test_one_record_that_is_too_slow_alone_is_refused_alone(org, session, slept):
    org.on("POST", "composite/sobjects/Account", Answer(504, b""))
    found = retrieve(session, "Account", ids(1), ["Name"])
    assert isinstance(found.refused[ids(1)[0]], OrgUnavailable)
    assert len(slept) == 1


def test_an_outage_is_not_mistaken_for_a_records_fault(org, session, slept):
    org.on("POST", "composite/sobjects/Account", Answer(503, b""))
    with pytest.raises(OrgUnavailable):
        retrieve(session, "Account", ids(9), ["Name"])
    assert len(org.requests("POST", "composite/sobjects/Account")) == 2


@pytest.mark.parametrize("body", [{}, [], [None, None], ["x"], [{"Id": "001000000000000AAA"}]])
def test_an_answer_that_does_not_fit_the_ids_is_reported(org, session, body):
    org.on("POST", "composite/sobjects/Account", Answer(200, body))
    found = retrieve(session, "Account", ids(1), ["Name"])
    assert isinstance(found.refused[ids(1)[0]], UnexpectedAnswer)


def test_one_unknown_field_refuses_the_retrieve(org, session):
    org.on("POST", "composite/sobjects/Account", refusal(400, "INVALID_FIELD", "No such column 'Nope'"))
    with pytest.raises(QueryRefused, match="Nope"):
        retrieve(session, "Account", ids(1), ["Nope"])


def test_limits_may_be_below_zero_and_nested_ones_are_left_out(org, session):
    answer = {
        "DailyApiRequests": {"Max": 5000, "Remaining": 4937, "My App": {"Max": 10, "Remaining": 5}},
        "DailyDeliveredPlatformEvents": {"Max": 10000, "Remaining": -12},
        "Odd": {},
    }
    org.on("GET", "limits/", Answer(200, answer))
    found = limits(session)
    assert found["DailyApiRequests"].maximum == 5000
    assert found["DailyDeliveredPlatformEvents"].remaining == -12
    assert "Odd" not in found


@pytest.mark.parametrize(
    ("channel", "entity"),
    [
        ("/data/AccountChangeEvent", "Account"),
        ("/data/Invoice_Statement__ChangeEvent", "Invoice_Statement__c"),
        ("/data/acme__Order__ChangeEvent", "acme__Order__c"),
    ],
)
def test_a_single_entity_channel_names_its_entity_without_a_request(org, session, channel, entity):
    assert channel_members(session, channel) == ChannelMembers((entity,))
    assert org.seen == []


@pytest.mark.parametrize(
    "channel", ["/event/X__e", "AccountChangeEvent", "/data/", "/data/Account", "/data/ChangeEvent"]
)
def test_a_text_that_is_no_change_event_channel_is_refused(session, channel):
    with pytest.raises(ValueError, match="change event"):
        channel_members(session, channel)


def test_the_standard_channel_is_read_from_the_orgs_setup(org, session):
    names = ["InvoiceStatement__ChangeEvent", "LeadChangeEvent", "AccountChangeEvent"]  # one has an id's 15 characters
    org.on(
        "GET", "tooling/query/", Answer(200, {"records": [{"SelectedEntity": name} for name in names], "done": True})
    )
    description = channel_members(session, "/data/ChangeEvents")
    assert description == ChannelMembers(("Account", "InvoiceStatement__c", "Lead"))
    assert "EventChannel = 'ChangeEvents'" in org.requests("GET", "tooling/query/")[0].query["q"]


def test_a_custom_channel_is_found_by_its_id_when_not_by_its_name(org, session):
    answers = [[], [{"Id": "0YLAb0000000001MAA"}], [{"SelectedEntity": "AccountChangeEvent"}]]
    org.on("GET", "tooling/query/", *(Answer(200, {"records": records, "done": True}) for records in answers))
    assert channel_members(session, "/data/Sales__chn") == ChannelMembers(("Account",))
    asked = [seen.query["q"] for seen in org.requests("GET", "tooling/query/")]
    assert [query.rpartition("= ")[2] for query in asked] == ["'Sales__chn'", "'Sales'", "'0YLAb0000000001MAA'"]


def test_the_filters_of_members_are_reported(org, session):
    records = [
        {"SelectedEntity": "AccountChangeEvent", "FilterExpression": "Industry = 'Energy'"},
        {"SelectedEntity": "LeadChangeEvent", "FilterExpression": None},
    ]
    org.on("GET", "tooling/query/", Answer(200, {"records": records, "done": True}))
    description = channel_members(session, "/data/Sales__chn")
    assert description == ChannelMembers(("Account", "Lead"), {"Account": "Industry = 'Energy'"})


def test_members_are_reported_with_the_ids_and_times_that_tell_one_from_another(org, session):
    records = [
        {
            "Id": "0v8Ab0000000001IAA",
            "CreatedDate": "2026-03-01T08:00:00.000+0000",
            "LastModifiedDate": "2026-03-02T10:00:00.000+0100",
            "SelectedEntity": "AccountChangeEvent",
            "FilterExpression": "Industry = 'Energy'",
        },
        {"Id": "0v8Ab0000000002IAA", "CreatedDate": "soon", "SelectedEntity": "LeadChangeEvent"},
    ]
    org.on("GET", "tooling/query/", Answer(200, {"records": records, "done": True}))
    description = channel_members(session, "/data/Sales__chn")
    created, modified = datetime(2026, 3, 1, 8, tzinfo=UTC), datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert description.members == {
        "Account": Member("0v8Ab0000000001IAA", created, modified, "Industry = 'Energy'"),
        "Lead": Member("0v8Ab0000000002IAA", None, None),
    }


def test_an_org_that_does_not_know_filters_tells_its_members_all_the_same(org, session):
    members = Answer(200, {"records": [{"SelectedEntity": "AccountChangeEvent"}], "done": True})
    org.on("GET", "tooling/query/", refusal(400, "INVALID_FIELD"), members)
    assert channel_members(session, "/data/ChangeEvents") == ChannelMembers(("Account",))


@pytest.mark.parametrize(("status", "code"), [(403, "INSUFFICIENT_ACCESS"), (404, "NOT_FOUND"), (400, "INVALID_TYPE")])
def test_without_the_permission_the_members_are_unknown(org, session, status, code):
    org.on("GET", "tooling/query/", refusal(status, code))
    assert channel_members(session, "/data/ChangeEvents") is None


def test_members_given_by_id_only_are_unknown(org, session):
    org.on("GET", "tooling/query/", Answer(200, {"records": [{"SelectedEntity": "01IAb0000000001MAA"}], "done": True}))
    assert channel_members(session, "/data/ChangeEvents") is None


def test_a_member_whose_name_is_no_api_name_costs_itself_alone(org, session):
    names = ["../../../outside/EvilChangeEvent", "Account' OR Name != 'ChangeEvent", "AccountChangeEvent"]
    records = [{"SelectedEntity": name} for name in names]
    org.on("GET", "tooling/query/", Answer(200, {"records": records, "done": True}))
    assert channel_members(session, "/data/ChangeEvents") == ChannelMembers(("Account",))


def test_a_member_that_is_no_change_event_costs_itself_alone(org, session, caplog):
    records = [{"SelectedEntity": name} for name in ("Order__e", "ChangeEvent", None, "AccountChangeEvent")]
    org.on("GET", "tooling/query/", Answer(200, {"records": [*records, {}], "done": True}))
    assert channel_members(session, "/data/ChangeEvents") == ChannelMembers(("Account",))
    assert "ChangeEvents has a member that is no change event: 'Order__e'. It is left out." in caplog.text


def test_a_list_without_any_change_event_does_not_say_that_the_channel_is_empty(org, session):
    org.on("GET", "tooling/query/", Answer(200, {"records": [{"SelectedEntity": "Order__e"}, {}], "done": True}))
    with pytest.raises(UnexpectedAnswer, match="no member that it lists is a change event"):
        channel_members(session, "/data/ChangeEvents")


@pytest.mark.parametrize("name", ["../../../outside/Evil", "Account/../Contact", "Account?x=1", "A\nB", ""])
def test_an_object_whose_name_is_no_api_name_is_not_asked_for(org, session, name):
    with pytest.raises(EntityNotReadable, match="INVALID_NAME"):
        describe(session, name)
    assert not org.requests("GET", "sobjects/")


def test_another_refusal_of_the_tooling_query_is_not_hidden(org, session):
    org.on("GET", "tooling/query/", refusal(409, "ODD"))
    with pytest.raises(RequestRefused, match="ODD"):
        channel_members(session, "/data/ChangeEvents")


@pytest.mark.parametrize(
    ("fifteen", "suffix"),
    [("001Dp00000JJkkH", "IAT"), ("005Dp000000Ppjs", "IAC"), ("0012F00000ic4TZ", "QAY"), ("0" * 15, "AAA")],
)
def test_the_suffix_of_an_id_is_the_one_salesforce_gives(fifteen, suffix):
    assert eighteen_characters(fifteen) == fifteen + suffix


@given(st.text("abcXYZ019", min_size=15, max_size=15))
def test_completing_an_id_twice_changes_nothing(fifteen):
    assert eighteen_characters(eighteen_characters(fifteen)) == eighteen_characters(fifteen)


@given(st.from_regex(r"[A-Z][A-Za-z]{0,10}", fullmatch=True))
def test_the_name_of_a_change_event_tells_the_entity(name):
    assert entity_of_change_event(f"{name}ChangeEvent") == name
    assert entity_of_change_event(f"{name}__ChangeEvent") == f"{name}__c"


def test_records_of_hundreds_of_objects_are_counted_in_few_requests(org, session):
    org.on("GET", "limits/recordCount", Answer(200, {"sObjects": [{"count": 3, "name": "Account"}]}))
    names = ["Account", *(f"Object_with_a_long_name_{number:03}__c" for number in range(300))]
    assert record_counts(session, names) == {"Account": 3}
    asked = [seen.query["sObjects"] for seen in org.requests("GET", "limits/recordCount")]
    assert [name for each in asked for name in each.split(",")] == names
    assert len(asked) < 4
    assert max(map(len, asked)) < 4_096


def test_an_answer_without_record_counts_is_named(org, session):
    org.on("GET", "limits/recordCount", Answer(200, {"sObjects": [{"name": "Account"}]}))
    with pytest.raises(UnexpectedAnswer, match="record counts"):
        record_counts(session, ["Account"])


def test_what_has_not_the_form_of_an_id_is_refused_and_not_asked_for(org, session):
    names = ["x' OR Name != '", "f" * 64]
    account = ObjectDescription.from_json({"name": "Account", "fields": [{"name": "Id", "type": "id"}]})
    found = read_back(session, "Account", names, (ID_COLUMN,), account, 1, datetime.now(UTC))
    assert set(found.refused) == set(names)
    assert (found.rows.num_rows, found.left) == (0, ())
    assert not org.requests("POST", "composite/sobjects/Account")
    assert not org.requests("GET", "queryAll/")
