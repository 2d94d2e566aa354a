"""`simple-salesforce` by each of its logins, and its collections, against an org it finds at Salesforce's own hosts.

Its known faults: it has those hosts built in; it sends `exp` of a JWT as text; it cannot read the empty answer to
`bulk2.delete_job`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from simple_salesforce import Salesforce, SalesforceAuthenticationFailed

from sfcdc_assets_tests.peers.served_org import ServedOrg, served_org

COMMON = {"version": "60.0"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedOrg]:
    with served_org(tmp_path_factory.mktemp("org"), {"User": 2, "Account": 30, "Opportunity": 40}) as served:
        yield served


@pytest.fixture(scope="module")
def session(served: ServedOrg) -> Iterator[requests.Session]:
    session = requests.Session()
    session.trust_env = False
    session.verify = str(served.server.ca_file)
    session.proxies = {"https": served.proxy}
    yield session
    session.close()


def ways(served: ServedOrg) -> dict[str, dict[str, Any]]:
    given = served.settings
    user, token = {"username": given["SALESFORCE_USERNAME"]}, given["SALESFORCE_SECURITY_TOKEN"]
    password = given["SALESFORCE_PASSWORD"]
    app = {"consumer_key": given["SALESFORCE_CLIENT_ID"], "consumer_secret": given["SALESFORCE_CLIENT_SECRET"]}
    return {
        "token": {**user, "password": password, "security_token": token},
        "sandbox": {**user, "password": password, "security_token": token, "domain": "test"},
        "organization": {**user, "password": password + token, "organizationId": served.org.organization_id},
        "app and password": {**user, "password": password + token, **app},
        "app alone": {**app, "domain": "emulated.my"},
        "key": {**user, "consumer_key": app["consumer_key"], "privatekey_file": str(served.jwt_key_file)},
    }


@pytest.mark.parametrize("way", ["token", "sandbox", "organization", "app and password", "app alone", "key"])
def test_it_logs_in(served: ServedOrg, session: requests.Session, way: str) -> None:
    sf = Salesforce(session=session, **COMMON, **ways(served)[way])
    truth = [record["Id"] for record in served.org.records("Account")]
    assert [record["Id"] for record in sf.query_all("SELECT Id FROM Account ORDER BY Id")["records"]] == truth
    assert sf.is_sandbox() is True


def test_a_wrong_password_is_reported_as_one(served: ServedOrg, session: requests.Session) -> None:
    wrong = {**ways(served)["token"], "password": "wrong"}
    with pytest.raises(SalesforceAuthenticationFailed, match="INVALID_LOGIN"):
        Salesforce(session=session, **COMMON, **wrong)


def test_its_collections_change_the_org(served: ServedOrg, session: requests.Session) -> None:
    org = served.org
    sf = Salesforce(session=session, **COMMON, **ways(served)["app alone"])
    records = [{"attributes": {"type": "Account"}, "Name": name} for name in ("c1", "c2")]
    made = sf.restful("composite/sobjects", method="POST", json={"allOrNone": True, "records": records}) or []
    ids = [each["id"] for each in made]
    changed = [{"attributes": {"type": "Account"}, "id": ids[0], "Phone": "7"}]
    sf.restful("composite/sobjects", method="PATCH", json={"records": changed})
    sf.restful("composite/sobjects", params={"ids": ids[1]}, method="DELETE")
    first, second = (org.record("Account", each) for each in ids)
    assert first is not None
    assert second is not None
    assert (first["Phone"], second["IsDeleted"]) == ("7", True)
    assert sf.Account.upsert("External_Key__c/s-1", {"Name": "u"}) == 201
    assert sf.Account.upsert("External_Key__c/s-1", {"Name": "u2"}) == 200
    assert sf.Account.get_by_custom_id("External_Key__c", "s-1")["Name"] == "u2"
    assert sf.Account.describe_layout("012000000000000AAA")["detailLayoutSections"]


def test_its_bulk_jobs_write_and_the_calls_of_dlts_source_read(served: ServedOrg, session: requests.Session) -> None:
    org = served.org
    sf = Salesforce(session=session, **COMMON, **ways(served)["app alone"])
    leads = [{"LastName": "l1", "Company": "c"}, {"LastName": "l2", "Company": "c"}]
    (done,) = sf.bulk2.Lead.insert(records=leads, wait=0)
    assert (done["numberRecordsProcessed"], done["numberRecordsFailed"]) == (2, 0)
    assert {record["LastName"] for record in org.records("Lead")} == {"l1", "l2"}
    # dlt's verified source describes an object, leaves compound fields out, and reads by the first Bulk API.
    fields = sf.Opportunity.describe()["fields"]
    compound = {field["compoundFieldName"] for field in fields if field["compoundFieldName"]} - {"Name"}
    names = [field["name"] for field in fields if field["name"] not in compound]
    soql = f"SELECT {', '.join(names)} FROM Opportunity ORDER BY SystemModstamp ASC"
    rows = [row for page in sf.bulk.Opportunity.query_all(soql, lazy_operation=True) for row in page]
    truth = {record["Id"]: (record["SystemModstamp"], record["Amount"]) for record in org.records("Opportunity")}
    assert {row["Id"]: (row["SystemModstamp"], row["Amount"]) for row in rows} == truth
