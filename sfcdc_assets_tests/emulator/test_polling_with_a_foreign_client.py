"""simple-salesforce polls an org: what a poller asks is answered, and comes to what the oracle says."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
import requests
import trustme
from simple_salesforce import Salesforce, SalesforceMalformedRequest

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets.emulator.rest.app import build_app
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets_tests.emulator.rest_server import serving

MINUTE = 60_000


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def org(clock: ManualClock) -> EmulatedOrg:
    org = EmulatedOrg(clock=clock, seed=4, objects=whole_org(), settings=OrgSettings(token_lifetime=90 * DAY))
    org.populate({"Account": 700, "Contact": 50, "ContentDocument": 5, "ContentDocumentLink": 20, "Case": 10})
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
        environment.delenv("REQUESTS_CA_BUNDLE", raising=False)
        environment.delenv("CURL_CA_BUNDLE", raising=False)
        session = requests.Session()
        session.verify = str(folder / "ca.pem")
        yield Salesforce(instance_url=url, session_id=sessions.issue(org.users.integration), session=session)
        session.close()


class Poller:
    """Reads one object again and again by (stamp, Id), each time from `back` before the last stamp seen."""

    def __init__(self, sf: Salesforce, entity: str, back: int) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._sf, self._entity, self._back = sf, entity, back
        self._seen = 0

    def poll(self, size: int = 200) -> None:
        stamp, last = max(0, self._seen - self._back), ""
        while True:
            at = datetime.fromtimestamp(stamp / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            soql = (
                f"SELECT Id, Name, IsDeleted, SystemModstamp FROM {self._entity} WHERE (SystemModstamp = {at} AND "
                f"Id > '{last or '000000000000000AAA'}') OR SystemModstamp > {at} ORDER BY SystemModstamp, Id "
                f"LIMIT {size}"
            )
            page = self._sf.query(soql, include_deleted=True)["records"]
            for row in page:
                self.rows[row["Id"]] = row
            if len(page) < size:
                break
            stamp, last = _epoch(page[-1]["SystemModstamp"]), page[-1]["Id"]
        stamps = [_epoch(row["SystemModstamp"]) for row in self.rows.values()]
        self._seen = max(stamps, default=0)

    @property
    def living(self) -> dict[str, str]:
        return {record_id: row["Name"] for record_id, row in self.rows.items() if not row["IsDeleted"]}


def _epoch(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() * 1000)


def truth(org: EmulatedOrg, moment: int) -> dict[str, Any]:
    return {record_id: row["Name"] for record_id, row in org.seen_at("Account", moment).items()}


def test_a_poller_that_reads_back_finds_late_commits_and_one_that_does_not_loses_them(
    org: EmulatedOrg, clock: ManualClock, sf: Salesforce
) -> None:
    careful, hasty = Poller(sf, "Account", back=10 * MINUTE), Poller(sf, "Account", back=0)
    for poller in (careful, hasty):
        poller.poll()
    held = org.long_transactions.begin()
    late = held.create("Account", {"Name": "late"})
    clock.advance(5 * MINUTE)
    gone = str(next(org.records("Account"))["Id"])
    sf.Account.create({"Name": "new"})
    sf.Account.delete(gone)
    for poller in (careful, hasty):
        poller.poll()
        assert poller.living == truth(org, clock())
    held.commit()
    clock.advance(MINUTE)
    for poller in (careful, hasty):
        poller.poll()
    assert careful.living == truth(org, clock())
    assert set(truth(org, clock())) - set(hasty.living) == {late}


def test_getupdated_says_from_where_to_ask_again(org: EmulatedOrg, clock: ManualClock, sf: Salesforce) -> None:
    held = org.long_transactions.begin()
    late = held.create("Account", {"Name": "later"})
    start = datetime.fromtimestamp(clock() / 1000 - 3600, UTC)
    clock.advance(20 * MINUTE)
    end = datetime.fromtimestamp(clock() / 1000, UTC)
    answer = sf.Account.updated(start, end)
    assert _epoch(answer["latestDateCovered"]) <= held.started_at
    held.commit()
    again = sf.Account.updated(
        datetime.strptime(answer["latestDateCovered"], "%Y-%m-%dT%H:%M:%S.%f%z"),
        datetime.fromtimestamp(clock() / 1000 + 60, UTC),
    )
    assert late in again["ids"]
    with pytest.raises(SalesforceMalformedRequest, match="is not replicable"):
        sf.AccountShare.deleted(start, end)


def test_counts_by_ranges_of_ids_come_to_the_whole(org: EmulatedOrg, sf: Salesforce) -> None:
    ids = [str(row["Id"]) for row in org.records("Account")]
    bounds = [ids[0], ids[200], ids[450], ids[-1]]
    counts = [
        sf.query(f"SELECT COUNT() FROM Account WHERE Id >= '{low}' AND Id < '{high}'")["totalSize"]
        for low, high in pairwise(bounds)
    ]
    assert counts == [200, 250, len(ids) - 451]
    assert sf.query(f"SELECT COUNT() FROM Account WHERE Id >= '{ids[-1]}'")["totalSize"] == 1


def test_lists_of_ids_and_texts_are_read(org: EmulatedOrg, sf: Salesforce) -> None:
    ids = [str(row["Id"]) for row in org.records("Account")][:300]
    listed = ", ".join(f"'{each}'" for each in ids)
    assert [row["Id"] for row in sf.query_all(f"SELECT Id FROM Account WHERE Id IN ({listed})")["records"]] == ids
    documents = ", ".join(f"'{row['Id']}'" for row in org.records("ContentDocument"))
    soql = f"SELECT Id FROM ContentDocumentLink WHERE ContentDocumentId IN ({documents})"
    assert sf.query(soql)["totalSize"] == 20
    with pytest.raises(SalesforceMalformedRequest, match="Implementation restriction: ContentDocumentLink"):
        sf.query("SELECT Id FROM ContentDocumentLink")


def test_five_queries_travel_in_one_call(org: EmulatedOrg, sf: Salesforce) -> None:
    entities = ("Account", "Contact", "Case", "AccountHistory", "AccountShare")
    stamps = {name: org.definitions[name].stamp for name in entities}
    queries = [
        f"SELECT Id FROM {name} WHERE {stamp} > 2000-01-01T00:00:00Z ORDER BY {stamp}, Id LIMIT 5"
        for name, stamp in stamps.items()
    ]
    body = [
        {"method": "GET", "url": f"/services/data/v59.0/queryAll?q={quote_plus(soql)}", "referenceId": f"r{number}"}
        for number, soql in enumerate(queries)
    ]
    answer = sf.restful("composite", method="POST", json={"compositeRequest": body})
    assert answer is not None
    assert [len(each["body"]["records"]) for each in answer["compositeResponse"]] == [5] * 5


def test_deleted_records_are_bulk_read(org: EmulatedOrg, clock: ManualClock, sf: Salesforce) -> None:
    gone = str(next(org.records("Contact"))["Id"])
    sf.Contact.delete(gone)
    operation = sf.bulk2.Contact
    pages = list(operation.query_all("SELECT Id, IsDeleted FROM Contact", wait=0))
    rows = {row["Id"]: row["IsDeleted"] for page in pages for row in csv.DictReader(io.StringIO(page, newline=""))}
    assert rows.keys() == {row["Id"] for row in org.records("Contact", include_deleted=True)}
    assert [record_id for record_id, deleted in rows.items() if deleted == "true"] == [gone]
