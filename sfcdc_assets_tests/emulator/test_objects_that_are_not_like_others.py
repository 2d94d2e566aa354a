"""Objects with other stamps or none, with queries that need a filter or are refused, that no Bulk API reads: what
describe says of each, and the words of its refusals."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.object_file import polled_definitions
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.ids import EMPTY_ID
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

CONTENT_DOCUMENT_LINK = (
    "Implementation restriction: ContentDocumentLink requires a filter by a single Id on ContentDocumentId or "
    "LinkedEntityId using the equals operator or multiple Id's using the IN operator."
)
REFUSED = {
    "ContentDocumentLink": ("MALFORMED_QUERY", CONTENT_DOCUMENT_LINK),
    "FlexQueueItem": (
        "EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION",
        "The WHERE clause must contain a JobType field expression.",
    ),
    "PicklistValueInfo": (
        "MALFORMED_QUERY",
        "PicklistValueInfo: a filter on a reified column is required [EntityParticleId,DurableId]",
    ),
    "SiteDetail": ("MALFORMED_QUERY", "SiteDetail: a filter on a reified column is required [DurableId]"),
    "OpenActivity": ("INVALID_TYPE_FOR_OPERATION", "entity type OpenActivity does not support query"),
    "ListViewChartInstance": (
        "EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION",
        "Getting all ListViewChartInstances is unsupported",
    ),
    "OutgoingEmail": (
        "EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION",
        "This query is not supported on the OutgoingEmail object.",
    ),
    "Stock_Level__x": (
        "EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION",
        "Getting all Stock_Level__x entities is unsupported",
    ),
}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def org(clock: ManualClock) -> EmulatedOrg:
    org = EmulatedOrg(clock=clock, seed=5, objects=whole_org(), settings=OrgSettings(token_lifetime=90 * DAY))
    org.populate(4)
    return org


@pytest.fixture(scope="module")
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def described(client: RestClient, entity: str) -> dict[str, Any]:
    return client.get(f"/sobjects/{entity}/describe").json()


def field(client: RestClient, entity: str, name: str) -> dict[str, Any]:
    return next(each for each in described(client, entity)["fields"] if each["name"] == name)


def refused(client: RestClient, soql: str) -> tuple[str, str]:
    answer = client.query(soql)
    assert answer.status_code == 400
    (error,) = answer.json()
    return error["errorCode"], error["message"]


def found(client: RestClient, soql: str, resource: str = "/query") -> list[dict[str, Any]]:
    answer = client.get(resource, params={"q": soql})
    assert answer.status_code == 200, answer.text
    return answer.json()["records"]


def names(client: RestClient, entity: str) -> str:
    fields = described(client, entity)["fields"]
    return ", ".join(each["name"] for each in fields if each["type"] not in ("address", "location"))


@pytest.mark.parametrize("entity", REFUSED)
def test_a_query_that_the_object_does_not_answer_is_refused_in_salesforces_words(
    client: RestClient, entity: str
) -> None:
    assert refused(client, f"SELECT Id FROM {entity}") == REFUSED[entity]
    assert refused(client, f"SELECT COUNT() FROM {entity}") == REFUSED[entity]
    assert described(client, entity)["queryable"] is (entity != "OpenActivity")


def test_links_of_documents_are_read_through_their_parents(org: EmulatedOrg, client: RestClient) -> None:
    links = list(org.records("ContentDocumentLink"))
    documents = sorted({str(link["ContentDocumentId"]) for link in links})
    listed = ", ".join(f"'{each}'" for each in documents)
    read = "SELECT Id, LinkedEntityId FROM ContentDocumentLink WHERE"
    assert {row["Id"] for row in found(client, f"{read} ContentDocumentId IN ({listed})")} == {
        link["Id"] for link in links
    }
    one = links[0]["LinkedEntityId"]
    assert {row["LinkedEntityId"] for row in found(client, f"{read} LinkedEntityId = '{one}' AND Id != null")} == {one}
    bad = f"{read} (LinkedEntityId = '{one}' OR ShareType = 'V')"
    assert refused(client, bad) == REFUSED["ContentDocumentLink"]
    assert refused(client, f"{read} SystemModstamp > 2024-01-01T00:00:00Z")[1] == CONTENT_DOCUMENT_LINK


def test_rows_without_ids_of_their_own_have_the_empty_one(org: EmulatedOrg, client: RestClient) -> None:
    rows = found(client, "SELECT Id, DurableId FROM ApexPageInfo ORDER BY DurableId")
    assert {row["Id"] for row in rows} == {EMPTY_ID}
    assert len({row["DurableId"] for row in rows}) == len(list(org.records("ApexPageInfo"))) > 1
    assert len(found(client, f"SELECT DurableId FROM ApexPageInfo WHERE Id = '{EMPTY_ID}'")) == len(rows)


def test_a_query_may_be_refused_the_order_that_describe_allows(client: RestClient) -> None:
    assert field(client, "BackgroundOperationResult", "CreatedDate")["sortable"]
    ordered = "SELECT Id FROM BackgroundOperationResult ORDER BY CreatedDate, Id"
    assert refused(client, ordered) == ("INVALID_FIELD", "field 'CreatedDate' can not be sorted in a query call")
    assert found(client, "SELECT Id FROM BackgroundOperationResult WHERE CreatedDate >= 2001-01-01T00:00:00Z")


def test_records_that_no_retrieve_gives_are_found_by_queries(org: EmulatedOrg, client: RestClient) -> None:
    tab = next(org.records("TabDefinition"))["Id"]
    answer = client.post("/composite/sobjects/TabDefinition", {"ids": [tab], "fields": ["Id"]})
    assert answer.status_code == 400
    message = "entity type TabDefinition does not support retrieve"
    assert answer.json() == [{"message": message, "errorCode": "INVALID_TYPE_FOR_OPERATION"}]
    assert [row["Id"] for row in found(client, f"SELECT Id FROM TabDefinition WHERE Id = '{tab}'")] == [tab]


def test_a_filter_on_a_reified_column_is_enough(org: EmulatedOrg, client: RestClient) -> None:
    durable = next(org.records("SiteDetail"))["DurableId"]
    soql = f"SELECT DurableId, SecureUrl FROM SiteDetail WHERE SiteDetail.DurableId = '{durable}'"
    assert [row["DurableId"] for row in found(client, soql)] == [durable]
    assert len(found(client, "SELECT JobPosition FROM FlexQueueItem WHERE JobType = 'BatchApex'")) <= 4


@pytest.mark.parametrize(
    ("entity", "stamps"),
    [
        ("AsyncApexJob", ["CreatedDate"]),
        ("LoginHistory", ["LoginTime"]),
        ("AccountHistory", ["CreatedDate"]),
        ("AccountShare", ["LastModifiedDate"]),
        ("AccountFeed", ["CreatedDate", "LastModifiedDate", "SystemModstamp"]),
        ("TabDefinition", []),
        ("Tax_Rate__mdt", ["SystemModstamp"]),
        ("ActivityFieldHistory", ["CreatedDate"]),
        ("RecordActionHistory", []),
    ],
)
def test_describe_says_by_which_stamps_rows_can_be_read_in_order(
    client: RestClient, entity: str, stamps: list[str]
) -> None:
    usable = [
        each["name"]
        for each in described(client, entity)["fields"]
        if each["name"] in ("CreatedDate", "LastModifiedDate", "LoginTime", "SystemModstamp")
        and each["filterable"]
        and each["sortable"]
    ]
    assert usable == stamps
    for stamp in stamps:
        found(client, f"SELECT Id FROM {entity} WHERE {stamp} >= 2020-01-01T00:00:00Z ORDER BY {stamp}, Id LIMIT 2")


def test_a_field_that_cannot_be_compared_or_ordered_by_says_so_in_describe_and_in_queries(client: RestClient) -> None:
    stamp = field(client, "ActivityFieldHistory", "SystemModstamp")
    assert (stamp["filterable"], stamp["sortable"]) == (False, False)
    code, message = refused(client, "SELECT Id FROM ActivityFieldHistory WHERE SystemModstamp > 2020-01-01T00:00:00Z")
    assert code == "INVALID_FIELD"
    assert message.endswith("field 'SystemModstamp' can not be filtered in a query call")
    logged = field(client, "RecordActionHistory", "LoggedTime")
    assert (logged["filterable"], logged["sortable"]) == (True, False)
    assert refused(client, "SELECT Id FROM RecordActionHistory ORDER BY LoggedTime")[1].endswith(
        "field 'LoggedTime' can not be sorted in a query call"
    )


def test_a_job_changes_and_its_one_stamp_does_not(org: EmulatedOrg, clock: ManualClock, client: RestClient) -> None:
    with org.transaction() as work:
        job = work.create("AsyncApexJob", {"Status": "Queued"})
    soql = f"SELECT CreatedDate, Status FROM AsyncApexJob WHERE Id = '{job}'"
    (before,) = found(client, soql)
    clock.advance(60_000)
    with org.transaction() as work:
        work.update("AsyncApexJob", job, {"Status": "Completed", "NumberOfErrors": 0})
    (after,) = found(client, soql)
    assert (before["Status"], after["Status"]) == ("Queued", "Completed")
    assert before["CreatedDate"] == after["CreatedDate"]


def test_a_contract_expires_and_no_stamp_moves(org: EmulatedOrg, clock: ManualClock, client: RestClient) -> None:
    account = next(org.records("Account"))["Id"]
    with org.transaction() as work:
        values = {"AccountId": account, "Status": "Activated", "EndDate": "2025-01-20"}
        contract = work.create("Contract", values)
    before = org.record("Contract", contract) or {}
    clock.advance(30 * DAY)
    (row,) = found(client, f"SELECT Status, SystemModstamp FROM Contract WHERE Id = '{contract}'")
    assert row["Status"] == "Expired"
    assert {**before, "Status": "Expired"} == org.record("Contract", contract)
    assert org.definitions["Contract"].fields_by_name["Status"].calculated is False
    *_, last = org.transactions()
    assert (contract, True) in [(change.record_id, change.is_silent) for change in last.changes]


@pytest.mark.parametrize(
    "entity", ["CaseStatus", "Attachment", "AccountFeed", "FlexQueueItem", "Reading__b", "Stock_Level__x"]
)
def test_no_bulk_api_reads_some_objects(org: EmulatedOrg, client: RestClient, entity: str) -> None:
    where = {"FlexQueueItem": " WHERE JobType = 'BatchApex'", "Stock_Level__x": " WHERE ExternalId = 'a'"}
    soql = f"SELECT Id FROM {entity}{where.get(entity, '')}"
    answer = client.post("/jobs/query", {"operation": "queryAll", "query": soql})
    message = f"Entity '{entity}' is not supported by the Bulk API."
    assert answer.status_code == 400
    assert answer.json() == [{"message": message, "errorCode": "INVALIDENTITY"}]
    job = {"operation": "query", "object": entity, "contentType": "JSON"}
    answer = client.send("POST", "//services/async/59.0/job", json=job)
    assert answer.status_code == 400
    assert answer.json() == {"exceptionCode": "InvalidEntity", "exceptionMessage": message}


def test_a_big_object_is_read_along_its_index_alone(org: EmulatedOrg, client: RestClient) -> None:
    device = next(org.records("Reading__b"))["Device__c"]
    read = "SELECT Device__c, Read_At__c, Degrees__c FROM Reading__b"
    assert len(found(client, read)) == 4
    assert len(found(client, f"{read} WHERE Device__c = '{device}' AND Read_At__c > 2000-01-01T00:00:00Z")) == 1
    for soql, message in (
        ("SELECT COUNT() FROM Reading__b", "Aggregate functions not supported"),
        (f"{read} ORDER BY Read_At__c", "Unsupported order direction on filter column: READ_AT__C : ASCENDING"),
        (f"{read} WHERE Device__c != 'x'", "Unsupported operator on filter column: DEVICE__C"),
        (f"{read} WHERE Degrees__c > 1", "Filter column is not part of the index: DEGREES__C"),
        (
            f"{read} WHERE Read_At__c > 2000-01-01T00:00:00Z",
            "Filters must follow the order of the index fields, without gaps",
        ),
    ):
        assert refused(client, soql) == ("BIG_OBJECT_UNSUPPORTED_OPERATION", message)


def test_a_file_is_given_as_an_address_and_its_bytes_from_there(org: EmulatedOrg, client: RestClient) -> None:
    account = next(org.records("Account"))["Id"]
    body = {"ParentId": account, "Name": "a.bin", "Body": base64.b64encode(b"\x00\xffbytes").decode()}
    created = client.post("/sobjects/Attachment", body).json()["id"]
    assert field(client, "Attachment", "Body")["type"] == "base64"
    (row,) = found(client, f"SELECT Name, Body, BodyLength FROM Attachment WHERE Id = '{created}'")
    assert row["Body"] == f"/services/data/v59.0/sobjects/Attachment/{created}/Body"
    assert row["BodyLength"] == 7
    assert client.get("/" + row["Body"]).content == b"\x00\xffbytes"
    assert client.get(f"/sobjects/Attachment/{created[:15]}zzz/Body").status_code == 404
    answer = client.post("/sobjects/Attachment", {**body, "Body": "no base64!"})
    assert answer.json()[0]["errorCode"] == "JSON_PARSER_ERROR"


def test_what_only_the_org_writes_is_refused_to_clients(org: EmulatedOrg, client: RestClient) -> None:
    answer = client.post("/sobjects/AsyncApexJob", {"Status": "Queued"})
    assert answer.status_code == 400
    assert answer.json() == [
        {"message": "entity type Apex Job does not support create", "errorCode": "INVALID_TYPE_FOR_OPERATION"}
    ]
    row = next(org.records("AccountHistory"))["Id"]
    assert client.send("PATCH", f"/sobjects/AccountHistory/{row}", json={}).status_code == 400
    assert client.send("DELETE", f"/sobjects/AccountHistory/{row}").status_code == 400
    flags = described(client, "AccountHistory")
    assert not any(flags[name] for name in ("createable", "updateable", "deletable", "undeletable"))


@pytest.mark.parametrize(
    ("entity", "flags"),
    [
        ("Account", (True, True, True, True, None, None)),
        ("AccountHistory", (True, True, True, False, "Account", "History")),
        ("AccountShare", (True, False, True, False, "Account", "Share")),
        ("AccountFeed", (True, True, True, False, "Account", "Feed")),
        ("Invoice_Statement__History", (True, True, True, False, "Invoice_Statement__c", "History")),
        ("OpportunityFieldHistory", (True, True, True, False, "Opportunity", "History")),
        ("TabDefinition", (True, False, False, False, None, None)),
        ("OpenActivity", (False, False, False, False, None, None)),
        ("Tax_Rate__mdt", (True, False, True, False, None, None)),
    ],
)
def test_describe_and_the_list_of_objects_say_what_can_be_done(
    client: RestClient, entity: str, flags: tuple[object, ...]
) -> None:
    keys = (
        "queryable", "replicateable", "retrieveable", "undeletable", "associateParentEntity", "associateEntityType",
    )  # fmt: skip
    one = described(client, entity)
    listed = next(each for each in client.get("/sobjects").json()["sobjects"] if each["name"] == entity)
    assert tuple(one[key] for key in keys) == tuple(listed[key] for key in keys) == flags


@pytest.mark.parametrize("definition", polled_definitions(), ids=lambda each: each.name)
def test_each_that_answers_can_be_read_whole(client: RestClient, definition: Any) -> None:
    if definition.name not in REFUSED:
        assert found(client, f"SELECT {names(client, definition.name)} FROM {definition.name}", "/queryAll")


def test_they_cannot_be_selected_and_companions_are_not_counted(org: EmulatedOrg, client: RestClient) -> None:
    for entity in ("Attachment", "AccountHistory", "Tax_Rate__mdt"):
        with pytest.raises(RecordError, match="cannot be selected for change data capture"):
            org.channels.add_member("ChangeEvents", entity)
    counted = {each["name"] for each in client.get("/limits/recordCount").json()["sObjects"]}
    assert counted == {name for name, each in org.definitions.items() if each.companion is None}


def test_none_of_them_is_captured_unless_somebody_chooses_it(org: EmulatedOrg) -> None:
    assert not {each.name for each in polled_definitions()} & set(org.selected_entities)
    assert not {name for name, each in org.definitions.items() if each.companion} & set(org.selected_entities)
