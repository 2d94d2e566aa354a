from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, settings=OrgSettings(token_lifetime=100 * DAY))


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()[0]["errorCode"]


def test_a_record_lives_from_create_to_undelete(org: EmulatedOrg, client: RestClient) -> None:
    created = client.post("/sobjects/Account", {"Name": "Acme", "External_Key__c": "K1"})
    record_id = created.json()["id"]
    assert (created.status_code, created.json()) == (201, {"id": record_id, "success": True, "errors": []})
    path = f"/sobjects/Account/{record_id}"
    assert client.get(f"/sobjects/Account/{record_id[:15]}?fields=Name,id").json()["Id"] == record_id
    changed = client.send("PATCH", path, json={"name": "Ajax"})
    assert (changed.status_code, changed.content) == (204, b"")
    whole = client.get(path).json()
    assert whole["Name"] == "Ajax"
    assert set(whole) == {"attributes"} | set(org.definitions["Account"].fields_by_name)
    assert client.get("/sobjects/Account/External_Key__c/k1").json()["Id"] == record_id
    assert client.send("DELETE", path).status_code == 204
    assert code(client.get(path)) == (404, "ENTITY_IS_DELETED")
    assert code(client.send("PATCH", path, json={"Name": "x"})) == (404, "ENTITY_IS_DELETED")
    assert client.post(path + "/undelete").status_code == 200
    assert client.get(path).json()["Name"] == "Ajax"
    assert [t.changes[0].change_type for t in org.transactions()] == ["CREATE", "UPDATE", "DELETE", "UNDELETE"]


def test_changes_tell_where_they_came_from(org: EmulatedOrg, client: RestClient) -> None:
    client.post(
        "/sobjects/Account", {"Name": "A"}, headers={"Sforce-Call-Options": "client=loader, defaultNamespace=x"}
    )
    client.post("//services/data/v60.0/sobjects/Account", {"Name": "B"})
    assert [transaction.change_origin for transaction in org.transactions()] == [
        "com/salesforce/api/rest/59.0;client=loader",
        "com/salesforce/api/rest/60.0",
    ]
    assert {transaction.commit_user for transaction in org.transactions()} == {org.users.integration}


def test_wrong_requests_are_refused_in_the_list_form(client: RestClient) -> None:
    assert code(client.post("/sobjects/Account", {})) == (400, "REQUIRED_FIELD_MISSING")
    assert client.post("/sobjects/Account", {"Name": "x" * 300}).json()[0]["fields"] == ["Name"]
    assert code(client.post("/sobjects/Nope", {})) == (404, "NOT_FOUND")
    assert code(client.post("/sobjects/Account", ["x"])) == (400, "JSON_PARSER_ERROR")
    assert code(client.send("POST", "/sobjects/Account", data=b"{")) == (400, "JSON_PARSER_ERROR")
    assert code(client.send("POST", "/sobjects/Account", data={"Name": "x"})) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert code(client.post("/sobjects/Account", {"Name": "\ud800"})) == (400, "JSON_PARSER_ERROR")
    assert code(client.get("/sobjects/Account/001000000000001")) == (404, "NOT_FOUND")
    assert code(client.get("/sobjects/Account/001")) == (400, "MALFORMED_ID")
    assert code(client.get("/sobjects/Account/001000000000001?fields=Nope")) == (400, "INVALID_FIELD")
    assert code(client.send("PUT", "/sobjects/Account/001000000000001")) == (405, "METHOD_NOT_ALLOWED")
    assert code(client.get("//services/data/v12.0/limits")) == (404, "NOT_FOUND")
    assert code(client.get("//nowhere")) == (404, "NOT_FOUND")


def test_describe_tells_what_the_mapping_needs(client: RestClient) -> None:
    account = client.get("/sobjects/Account/describe").json()
    fields = {field["name"]: field for field in account["fields"]}
    assert (account["keyPrefix"], account["queryable"], account["replicateable"]) == ("001", True, True)
    assert fields["BillingCity"]["compoundFieldName"] == "BillingAddress"
    assert fields["BillingAddress"]["type"] == "address"
    assert fields["Revenue_Per_Employee__c"]["calculatedFormula"] == "AnnualRevenue / NumberOfEmployees"
    assert (fields["Pipeline__c"]["calculated"], fields["Pipeline__c"]["calculatedFormula"]) == (True, None)
    assert fields["OwnerId"]["referenceTo"] == ["User"]
    assert fields["OwnerId"]["relationshipName"] == "Owner"
    assert fields["Rating"]["picklistValues"][0]["value"] == "Hot"
    assert (fields["NumberOfEmployees"]["digits"], fields["NumberOfEmployees"]["soapType"]) == (8, "xsd:int")
    contact = {field["name"]: field for field in client.get("/sobjects/Contact/describe/").json()["fields"]}
    assert contact["LastName"]["compoundFieldName"] == "Name"
    assert contact["Name"]["extraTypeInfo"] == "personname"


# What jsforce's types and the vendor's schema of a describe (@salesforce/plugin-schema, sobject-describe.json) name.
OF_A_FIELD = """
aggregatable aiPredictionField autoNumber byteLength calculated calculatedFormula cascadeDelete caseSensitive
compoundFieldName controllerName createable custom defaultValue defaultValueFormula defaultedOnCreate dependentPicklist
deprecatedAndHidden digits displayLocationInDecimal encrypted externalId extraTypeInfo filterable filteredLookupInfo
formulaTreatNullNumberAsZero groupable highScaleNumber htmlFormatted idLookup inlineHelpText label length mask maskType
name nameField namePointing nillable permissionable picklistValues polymorphicForeignKey precision queryByDistance
referenceTargetField referenceTo relationshipName relationshipOrder restrictedDelete restrictedPicklist scale
searchPrefilterable soapType sortable type unique updateable writeRequiresMasterRead
"""
OF_AN_OBJECT = """
actionOverrides activateable childRelationships compactLayoutable createable custom customSetting deepCloneable
defaultImplementation deletable deprecatedAndHidden feedEnabled fields hasSubtypes implementedBy implementsInterfaces
isInterface isSubtype keyPrefix label labelPlural layoutable mergeable mruEnabled name namedLayoutInfos
networkScopeFieldName queryable recordTypeInfos replicateable retrieveable searchLayoutable searchable supportedScopes
triggerable undeletable updateable urls
"""


def test_describe_has_all_attributes_that_clients_look_up(client: RestClient) -> None:
    account = client.get("/sobjects/Account/describe").json()
    assert set(OF_AN_OBJECT.split()) - set(account) == set()
    assert [set(OF_A_FIELD.split()) - set(field) for field in account["fields"]] == [set()] * len(account["fields"])


def test_a_path_may_begin_with_several_slashes_as_the_vendors_command_line_sends_it(client: RestClient) -> None:
    # An instance URL that ends in a slash, and a path that begins with one; RestClient takes one slash off.
    assert client.get("///services/data/v60.0/sobjects/Account").status_code == 200
    assert client.post("///services/data/v60.0/sobjects/Account", {"Name": "x"}).status_code == 201
    elsewhere = {"Origin": "https://elsewhere.example"}
    asked = [client.send("DELETE", f"{slashes}emulator/faults", headers=elsewhere) for slashes in ("//", "///")]
    assert [answer.status_code for answer in asked] == [403, 403]


def test_describe_answers_304_until_something_changes(org: EmulatedOrg, client: RestClient) -> None:
    first = client.get("/sobjects/Account/describe")
    known = {"If-Modified-Since": first.headers["Last-Modified"]}
    assert client.get("/sobjects/Account/describe", headers=known).status_code == 304
    account = org.definitions["Account"]
    new = field_definition("Account", "New__c", {"type": "string"})
    org.replace_definition(account.with_fields((*account.fields, new)))
    again = client.get("/sobjects/Account/describe", headers=known)
    assert again.status_code == 200
    assert again.json()["fields"][-1]["name"] == "New__c"


def test_clients_at_the_same_time_do_not_disturb_each_other(org: EmulatedOrg, client: RestClient) -> None:
    def work(worker: int) -> list[int]:
        other = RestClient(client.base_url, str(client.session.headers["Authorization"]).removeprefix("Bearer "))
        with other.session:
            created = [other.post("/sobjects/Account", {"Name": f"{worker}-{n}"}) for n in range(15)]
            queried = other.query("SELECT COUNT() FROM Account")
        return [answer.status_code for answer in (*created, queried)]

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(work, range(6)))
    assert statuses == [[201] * 15 + [200]] * 6
    assert org.count("Account") == 90
    assert len({transaction.commit_number for transaction in org.transactions()}) == 90


def window(start: int, end: int) -> dict[str, str]:
    return {"start": f"2025-01-01T00:{start:02d}:00+00:00", "end": f"2025-01-01T00:{end:02d}:30Z"}


def test_updated_and_deleted_lists_go_by_whole_minutes(
    org: EmulatedOrg, client: RestClient, clock: ManualClock
) -> None:
    ids = [client.post("/sobjects/Account", {"Name": name}).json()["id"] for name in "abc"]
    clock.advance(5 * 60_000)
    client.send("PATCH", f"/sobjects/Account/{ids[0]}", json={"Name": "x"})
    client.send("DELETE", f"/sobjects/Account/{ids[1]}")
    with org.transaction() as work:
        work.hard_delete("Account", ids[2])
    clock.advance(30_000)
    updated = client.get("/sobjects/Account/updated", params=window(5, 20)).json()
    assert updated == {"ids": [ids[0]], "latestDateCovered": "2025-01-01T00:05:00.000+0000"}
    deleted = client.get("/sobjects/Account/deleted/", params=window(0, 6)).json()
    assert [item["id"] for item in deleted["deletedRecords"]] == ids[1:]
    assert deleted["deletedRecords"][0]["deletedDate"] == "2025-01-01T00:05:00.000+0000"
    assert client.get("/sobjects/Account/updated", params=window(0, 4)).json()["ids"] == []


def test_a_wrong_span_is_refused(client: RestClient, clock: ManualClock) -> None:
    for bad in (window(5, 5), {"start": "2025-01-01T00:00:00", "end": "2025-01-01T00:09:00Z"}, {}):
        assert code(client.get("/sobjects/Account/updated", params=bad)) == (400, "INVALID_REPLICATION_DATE")
    clock.advance(16 * DAY)
    assert client.get("/sobjects/Account/updated", params=window(0, 9)).status_code == 200
    assert code(client.get("/sobjects/Account/deleted", params=window(0, 9))) == (400, "INVALID_REPLICATION_DATE")
