"""The `simple-salesforce` package over TLS: no patch but a session and a certificate."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
import trustme
from simple_salesforce import (
    Salesforce,
    SalesforceExpiredSession,
    SalesforceMalformedRequest,
    SalesforceResourceNotFound,
)

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.app import build_app
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets_tests.emulator.rest_server import serving


@pytest.fixture(scope="module")
def org() -> EmulatedOrg:
    org = EmulatedOrg(seed=4)
    org.populate({"Account": 2345})
    return org


@pytest.fixture(scope="module")
def sf(org: EmulatedOrg, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salesforce]:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    sessions = Sessions(org)
    certificate = authority.issue_cert("localhost")
    with (
        pytest.MonkeyPatch.context() as environment,
        serving(build_app(org, sessions=sessions), certificate, folder) as url,
    ):
        # requests lets these variables win over `session.verify`; a developer's machine may have them set.
        environment.delenv("REQUESTS_CA_BUNDLE", raising=False)
        environment.delenv("CURL_CA_BUNDLE", raising=False)
        session = requests.Session()
        session.verify = str(folder / "ca.pem")
        yield Salesforce(instance_url=url, session_id=sessions.issue(org.users.integration), session=session)
        session.close()


def test_it_queries_and_pages(org: EmulatedOrg, sf: Salesforce) -> None:
    truth = [record["Id"] for record in org.records("Account")]
    assert sf.query("SELECT COUNT() FROM Account")["totalSize"] == 2345
    assert [record["Id"] for record in sf.query_all_iter("SELECT Id FROM Account")] == truth
    assert len(sf.query_all("SELECT Id FROM Account", include_deleted=True)["records"]) == 2345


def test_it_describes(sf: Salesforce) -> None:
    assert "Account" in {item["name"] for item in (sf.describe() or {})["sobjects"]}
    assert {field["name"] for field in sf.Contact.describe()["fields"]} >= {"FirstName", "MailingCity"}


def test_it_creates_reads_updates_and_deletes(org: EmulatedOrg, sf: Salesforce) -> None:
    record_id = sf.Contact.create({"LastName": "Kaya", "Birthdate": "1990-01-02"})["id"]
    assert sf.Contact.get(record_id)["Name"] == "Kaya"
    assert sf.Contact.update(record_id, {"FirstName": "Ana"}) == 204
    assert sf.Contact.get(record_id)["Name"] == "Ana Kaya"
    assert sf.Contact.delete(record_id) == 204
    with pytest.raises(SalesforceResourceNotFound):
        sf.Contact.get(record_id)
    with pytest.raises(SalesforceMalformedRequest):
        sf.Contact.create({"FirstName": "nameless"})
    kinds = [transaction.changes[0].change_type for transaction in org.transactions()]
    assert kinds == ["CREATE", "UPDATE", "DELETE"]


def test_it_lists_updated_and_deleted_records(org: EmulatedOrg, sf: Salesforce) -> None:
    record_id = sf.Lead.create({"LastName": "Kaya", "Company": "Acme"})["id"]
    now = org.clock() // 1000
    start, end = (datetime.fromtimestamp(now + shift, UTC) for shift in (-3600, 3600))
    assert record_id in sf.Lead.updated(start, end)["ids"]
    sf.Lead.delete(record_id)
    assert record_id in [item["id"] for item in sf.Lead.deleted(start, end)["deletedRecords"]]


def test_it_retrieves_many_records_and_reads_limits(org: EmulatedOrg, sf: Salesforce) -> None:
    ids = [record["Id"] for record in org.records("Account")][:2000]
    records = sf.restful("composite/sobjects/Account", method="POST", json={"ids": ids, "fields": ["Id", "Name"]})
    assert [record["Id"] for record in records or []] == ids
    assert sf.limits()["DailyApiRequests"]["Max"] == 100_000
    assert sf.api_usage["api-usage"].total == 100_000


def test_it_bulk_reads(org: EmulatedOrg, sf: Salesforce) -> None:
    truth = [record["Id"] for record in org.records("Account")]
    pages = list(sf.bulk2.Account.query("SELECT Id, Name, Description FROM Account", max_records=1000, wait=0))
    rows = [row for page in pages for row in csv.DictReader(io.StringIO(page, newline=""))]
    assert len(pages) == 3
    assert [row["Id"] for row in rows] == truth


def test_it_bulk_downloads_to_files(sf: Salesforce, tmp_path: Path) -> None:
    results = sf.bulk2.Account.download("SELECT Id FROM Account", path=str(tmp_path), max_records=2000, wait=0)
    assert [result["number_of_records"] for result in results] == [2000, 345]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_token_that_is_worth_nothing_is_an_expired_session(sf: Salesforce) -> None:
    instance = f"https://{sf.sf_instance}"
    stranger = Salesforce(instance_url=instance, session_id="00D!wrong", session=sf.session)
    with pytest.raises(SalesforceExpiredSession):
        stranger.query("SELECT Id FROM Account")
