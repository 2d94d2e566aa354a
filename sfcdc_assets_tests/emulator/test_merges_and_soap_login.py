"""Merges by Python, REST and SOAP, and logging in by SOAP with a user alone."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client


@pytest.fixture
def watched() -> WatchedOrg:
    return WatchedOrg()


@pytest.fixture
def client(watched: WatchedOrg) -> Iterator[RestClient]:
    with rest_client(watched.org) as client:
        yield client


def soap(client: RestClient, body: str, session: str = "") -> tuple[int, str]:
    text = (
        '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:p="urn:partner.soap.sforce.com" '
        'xmlns:s="urn:sobject.partner.soap.sforce.com">'
        f"<e:Header><p:SessionHeader><p:sessionId>{session}</p:sessionId></p:SessionHeader></e:Header>"
        f"<e:Body>{body}</e:Body></e:Envelope>"
    )
    answer = client.send("POST", "//services/Soap/u/65.0", data=text.encode(), headers={"Content-Type": "text/xml"})
    return answer.status_code, answer.text


def login(username: str, password: str) -> str:
    return f"<p:login><p:username>{escape(username)}</p:username><p:password>{escape(password)}</p:password></p:login>"


def test_a_merge_by_rest_updates_the_winner_and_deletes_the_losers(watched: WatchedOrg, client: RestClient) -> None:
    winner, first, second = (watched.create(Name=name) for name in "wab")
    child = watched.create("Contact", LastName="x", AccountId=first)
    subsidiary = watched.create(Name="s", ParentId=second)
    watched.update(winner, ParentId=first)
    watched.events()
    answer = client.post(f"/sobjects/Account/{winner}/merge", {"losers": [first, second]})
    assert answer.json() == {"id": winner, "success": True, "errors": []}
    events = {(e.header["changeType"], one): e for e in watched.events() for one in e.header["recordIds"]}
    assert events.keys() == {
        ("DELETE", first),
        ("DELETE", second),
        ("UPDATE", winner),
        ("UPDATE", child),
        ("UPDATE", subsidiary),
    }
    assert events["UPDATE", child].body["AccountId"] == winner
    assert events["UPDATE", winner].header["nulledFields"] == watched.bitmap("ParentId")
    masters = {str(one["Id"]): one["MasterRecordId"] for one in watched.org.records("Account", include_deleted=True)}
    assert masters == {winner: None, first: winner, second: winner, subsidiary: None}
    soql = "SELECT Id, MasterRecordId FROM Account WHERE IsDeleted = true"
    found = client.get("/queryAll", params={"q": soql}).json()["records"]
    assert {(record["Id"], record["MasterRecordId"]) for record in found} == {(first, winner), (second, winner)}


def test_children_stay_where_they_are_if_one_likes(watched: WatchedOrg, client: RestClient) -> None:
    winner, loser = watched.create(), watched.create()
    child = watched.create("Contact", LastName="x", AccountId=loser)
    assert client.post(f"/sobjects/Account/{winner}/merge", {"losers": [loser], "reparent": False}).status_code == 200
    record = watched.org.record("Contact", child)
    assert record is not None
    assert record["AccountId"] == loser


def test_a_merge_that_cannot_be_is_refused_and_changes_nothing(watched: WatchedOrg, client: RestClient) -> None:
    winner, loser = watched.create(), watched.create()
    with watched.org.transaction() as work:
        for losers in ((loser, winner), (loser, loser), (), (loser, "001000000000001"), (loser, "x")):
            with pytest.raises(RecordError):
                work.merge("Account", winner, losers)
        with pytest.raises(RecordError):
            work.merge("Task", winner, (loser,))
    assert work.committed is None
    assert client.post(f"/sobjects/Account/{winner}/merge", {"losers": "all"}).status_code == 400


def test_a_merge_by_soap_sets_values_of_the_winner(watched: WatchedOrg, client: RestClient) -> None:
    winner, loser = watched.create(), watched.create()
    watched.events()
    session = str(client.session.headers["Authorization"]).removeprefix("Bearer ")
    body = (
        f"<p:merge><p:request><p:masterRecord><s:type>Account</s:type><s:Id>{winner}</s:Id><s:Phone>55</s:Phone>"
        f"</p:masterRecord><p:recordToMergeIds>{loser}</p:recordToMergeIds></p:request>"
        f"<p:request><p:masterRecord><s:type>Account</s:type><s:Id>{loser}</s:Id></p:masterRecord>"
        f"<p:recordToMergeIds>{winner}</p:recordToMergeIds></p:request></p:merge>"
    )
    status, text = soap(client, body, session)
    assert (status, text.count("<success>true</success>"), text.count("ENTITY_IS_DELETED")) == (200, 1, 1)
    deleted, updated = watched.events()
    assert (deleted.header["changeType"], deleted.header["recordIds"]) == ("DELETE", [loser])
    assert (updated.header["recordIds"], updated.body["Phone"]) == ([winner], "55")
    assert updated.header["changeOrigin"] == "com/salesforce/api/soap/65.0"


def test_a_user_alone_logs_in_by_soap(watched: WatchedOrg, client: RestClient) -> None:
    credentials = watched.org.settings.credentials
    status, text = soap(client, login(credentials.username.upper(), credentials.password + credentials.security_token))
    assert status == 200
    assert f"<organizationId>{watched.org.organization_id}</organizationId>" in text
    assert f"<serverUrl>{client.base_url}/services/Soap/u/65.0/{watched.org.organization_id[:15]}</serverUrl>" in text
    client.session.headers["Authorization"] = f"Bearer {text.partition('<sessionId>')[2].partition('<')[0]}"
    assert client.get("/limits").status_code == 200


def test_a_wrong_password_is_a_soap_fault_that_does_not_repeat_it(watched: WatchedOrg, client: RestClient) -> None:
    status, text = soap(client, login(watched.org.settings.credentials.username, "the wrong one"))
    assert status == 500
    assert "INVALID_LOGIN" in text
    assert "the wrong one" not in text
