from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def org() -> EmulatedOrg:
    return EmulatedOrg(clock=ManualClock())


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def contact(**values: Any) -> dict[str, Any]:
    return {"attributes": {"type": "Contact"}, **values}


def create(client: RestClient, *names: str) -> list[str]:
    records = [contact(LastName=name) for name in names]
    return [item["id"] for item in client.post("/composite/sobjects", {"records": records}).json()]


def test_many_records_are_changed_in_one_transaction(org: EmulatedOrg, client: RestClient) -> None:
    ids = create(client, *(f"n{n}" for n in range(200)))
    records = [contact(id=record_id, Title="Dr.") for record_id in ids]
    updated = client.send("PATCH", "/composite/sobjects", json={"allOrNone": True, "records": records}).json()
    assert [item["id"] for item in updated] == ids
    client.send("DELETE", "/composite/sobjects", params={"ids": ",".join(ids[:3]), "allOrNone": "true"})
    assert [(len(t.changes), t.changes[0].change_type) for t in org.transactions()] == [
        (200, "CREATE"),
        (200, "UPDATE"),
        (3, "DELETE"),
    ]


def test_all_or_none_undoes_everything_and_says_so(org: EmulatedOrg, client: RestClient) -> None:
    records = [contact(LastName="good"), contact(Title="no name"), {"attributes": {"type": "Nope"}}]
    results = client.post("/composite/sobjects", {"allOrNone": True, "records": records}).json()
    assert [item["errors"][0]["statusCode"] for item in results] == [
        "ALL_OR_NONE_OPERATION_ROLLED_BACK",
        "REQUIRED_FIELD_MISSING",
        "INVALID_TYPE",
    ]
    assert (org.count("Contact"), list(org.transactions())) == (0, [])


def test_otherwise_good_records_are_saved_and_bad_ones_reported(org: EmulatedOrg, client: RestClient) -> None:
    known = create(client, "a")[0]
    records = [contact(id=known, Title="Dr."), contact(id="003000000000001", Title="x"), contact(Title="no id")]
    results = client.send("PATCH", "/composite/sobjects", json={"records": records}).json()
    assert [item["success"] for item in results] == [True, False, False]
    codes = [item["errors"][0]["statusCode"] for item in results[1:]]
    assert codes == ["INVALID_CROSS_REFERENCE_KEY", "MISSING_ARGUMENT"]
    assert [len(t.changes) for t in org.transactions()] == [1, 1]


def test_more_than_200_records_are_refused(org: EmulatedOrg, client: RestClient) -> None:
    answer = client.post("/composite/sobjects", {"records": [contact(LastName="x")] * 201})
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "EXCEEDED_ID_LIMIT")
    assert org.count("Contact") == 0


def test_retrieval_keeps_the_order_and_has_null_for_what_is_not_there(client: RestClient) -> None:
    ids = create(client, *(f"n{n}" for n in range(5)))
    client.send("DELETE", f"/sobjects/Contact/{ids[1]}")
    wanted = [ids[3], "003000000000001", ids[1], ids[0][:15], ids[3]]
    by_body = client.post("/composite/sobjects/Contact", {"ids": wanted, "fields": ["id", "lastname", "Name"]}).json()
    assert [record and record["LastName"] for record in by_body] == ["n3", None, None, "n0", "n3"]
    url = f"/composite/sobjects/Contact?ids={','.join(wanted)}&fields=Id,LastName,Name"
    assert client.get(url).json() == by_body


def test_up_to_2000_ids_can_be_read_at_once(org: EmulatedOrg, client: RestClient) -> None:
    org.populate({"Contact": 2001})
    ids = [record["Id"] for record in org.records("Contact")]
    answer = client.post("/composite/sobjects/Contact", {"ids": ids[:2000], "fields": ["Id"]}).json()
    assert [record["Id"] for record in answer] == ids[:2000]
    assert client.post("/composite/sobjects/Contact", {"ids": ids, "fields": ["Id"]}).status_code == 400
    assert client.get(f"/composite/sobjects/Contact?ids={','.join(map(str, ids[:900]))}&fields=Id").status_code == 414


def test_retrieval_of_an_unknown_field_or_a_malformed_id_fails_as_a_whole(client: RestClient) -> None:
    known = create(client, "a")[0]
    for ids, fields, code in (([known], ["Nope"], "INVALID_FIELD"), ([known, "x"], ["Id"], "MALFORMED_ID")):
        answer = client.post("/composite/sobjects/Contact", {"ids": ids, "fields": fields})
        assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, code)


def steps(*, last_name: str | None) -> dict[str, Any]:
    base = "/services/data/v59.0"
    return {
        "compositeRequest": [
            {"method": "POST", "url": f"{base}/sobjects/Account", "referenceId": "A", "body": {"Name": "Acme"}},
            {"method": "POST", "url": f"{base}/sobjects/Contact", "referenceId": "C",
             "body": {"LastName": last_name, "AccountId": "@{A.id}"}},
            {"method": "GET", "url": f"{base}/sobjects/Contact/@{{C.id}}?fields=AccountId", "referenceId": "R"},
        ]
    }  # fmt: skip


def test_composite_subrequests_use_earlier_results(org: EmulatedOrg, client: RestClient) -> None:
    results = client.post("/composite", {"allOrNone": True, **steps(last_name="Kaya")}).json()["compositeResponse"]
    assert [item["httpStatusCode"] for item in results] == [201, 201, 200]
    assert results[2]["body"]["AccountId"] == results[0]["body"]["id"]
    (transaction,) = org.transactions()
    assert [change.entity for change in transaction.changes] == ["Account", "Contact"]


def test_a_failed_composite_subrequest_undoes_all_if_asked(org: EmulatedOrg, client: RestClient) -> None:
    results = client.post("/composite", {"allOrNone": True, **steps(last_name=None)}).json()["compositeResponse"]
    assert [item["httpStatusCode"] for item in results] == [400, 400, 400]
    assert org.count("Account") == 0
    results = client.post("/composite", steps(last_name=None)).json()["compositeResponse"]
    assert [item["httpStatusCode"] for item in results] == [201, 400, 400]
    assert org.count("Account") == 1


def test_batch_subrequests_are_independent(org: EmulatedOrg, client: RestClient) -> None:
    requests = [
        {"method": "GET", "url": "v59.0/sobjects/Account/001000000000001"},
        {"method": "POST", "url": "v59.0/sobjects/Account", "richInput": {"Name": "Acme"}},
    ]
    answer = client.post("/composite/batch", {"batchRequests": requests}).json()
    assert (answer["hasErrors"], [item["statusCode"] for item in answer["results"]]) == (True, [404, 201])
    answer = client.post("/composite/batch", {"batchRequests": requests, "haltOnError": True}).json()
    assert [item["statusCode"] for item in answer["results"]] == [404, 412]
    assert org.count("Account") == 1
