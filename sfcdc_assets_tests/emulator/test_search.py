"""SOSL over REST, compared with plain Python over the oracle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture(scope="module")
def org() -> EmulatedOrg:
    org = EmulatedOrg(clock=ManualClock(), seed=8)
    org.populate({"User": 2, "Account": 60, "Contact": 60})
    with org.transaction() as work:
        work.create("Account", {"Name": "Acme Tools", "Phone": "555 0100", "Rating": "Hot"})
        work.create("Account", {"Name": "Acme Paints", "Site": "tools and colours"})
        work.create("Contact", {"LastName": "Acmeson", "Email": "acme@example.com"})
    return org


@pytest.fixture(scope="module")
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def found(client: RestClient, sosl: str) -> list[dict[str, Any]]:
    answer = client.get("/search", params={"q": sosl})
    assert answer.status_code == 200, answer.text
    return answer.json()["searchRecords"]


@pytest.mark.parametrize(
    ("sosl", "names"),
    [
        ("FIND {acme} RETURNING Account(Name ORDER BY Name)", ["Acme Paints", "Acme Tools"]),
        ("FIND {ACME tools} RETURNING Account(Name ORDER BY Name)", ["Acme Paints", "Acme Tools"]),
        ('FIND {"acme tools"} RETURNING Account(Name)', ["Acme Tools"]),
        ("FIND {acme AND tools} IN NAME FIELDS RETURNING Account(Name)", ["Acme Tools"]),
        ("FIND {paints OR 0100} RETURNING Account(Name ORDER BY Name)", ["Acme Paints", "Acme Tools"]),
        ("FIND {pain*} RETURNING Account(Id, Name)", ["Acme Paints"]),
        ("FIND {pain} RETURNING Account(Id, Name)", []),
        ("FIND {acme} RETURNING Account(Name WHERE Rating = 'Hot' LIMIT 5)", ["Acme Tools"]),
        ("FIND {acme} RETURNING Account(Name ORDER BY Name), Contact(Name) LIMIT 1", ["Acme Paints"]),
        ("FIND {acme} IN EMAIL FIELDS RETURNING Account(Name), Contact(Name)", ["Acmeson"]),
    ],
)
def test_words_are_found_whole_in_their_scope(client: RestClient, sosl: str, names: list[str]) -> None:
    assert [record["Name"] for record in found(client, sosl)] == names


def test_without_returning_ids_of_all_objects_are_found(org: EmulatedOrg, client: RestClient) -> None:
    word = re.compile(r"(?<!\w)Kaya(?!\w)")
    truth = {record["Id"] for record in org.records("Contact") if word.search(str(record["LastName"]))}
    read = found(client, "FIND {Kaya}")
    assert truth <= {record["Id"] for record in read}
    assert {record["attributes"]["type"] for record in read if record["Id"] in truth} == {"Contact"}


@pytest.mark.parametrize("sosl", ["", "FIND acme", "FIND {a}", "FIND {acme OR}", "FIND {acme} RETURNING Account(Name"])
def test_what_is_no_search_is_refused(client: RestClient, sosl: str) -> None:
    answer = client.get("/search", params={"q": sosl})
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (400, "MALFORMED_SEARCH")
