"""REST that lags behind: every way to read shows the records as they were, while events flow at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

LAG = 2_000


@pytest.fixture
def watched() -> WatchedOrg:
    watched = WatchedOrg()
    watched.clock.advance(500)
    return watched


@pytest.fixture
def client(watched: WatchedOrg) -> Iterator[RestClient]:
    with rest_client(watched.org) as client:
        yield client


def names(client: RestClient, path: str = "/query") -> list[str]:
    soql = "SELECT Name FROM Account ORDER BY Name"
    return [record["Name"] for record in client.get(path, params={"q": soql}).json()["records"]]


def bulk(client: RestClient, operation: str = "query") -> list[str]:
    job = client.post("/jobs/query", {"operation": operation, "query": "SELECT Name FROM Account ORDER BY Name"}).json()
    for _ in range(3):
        if client.get(f"/jobs/query/{job['id']}").json()["state"] == "JobComplete":
            break
    return client.get(f"/jobs/query/{job['id']}/results").text.replace('"', "").split()[1:]


def retrieved(client: RestClient, *ids: str) -> list[str | None]:
    found = client.post("/composite/sobjects/Account", {"ids": list(ids), "fields": ["Name"]}).json()
    return [None if record is None else record["Name"] for record in found]


def test_every_way_to_read_shows_older_versions_and_catches_up(watched: WatchedOrg, client: RestClient) -> None:
    kept, changed, deleted, purged = (watched.create(Name=name) for name in ("kept", "old", "deleted", "purged"))
    watched.events()
    watched.settings(rest_delay=LAG)
    watched.update(changed, Name="newer")
    watched.clock.advance(600)
    watched.update(changed, Name="newest")
    created = watched.create(Name="created")
    watched.commit(lambda work: work.delete("Account", deleted))
    watched.commit(lambda work: work.hard_delete("Account", purged))
    assert [event.header["changeType"] for event in watched.events()] == ["UPDATE", "UPDATE", "CREATE"] + ["DELETE"] * 2

    before = ["deleted", "kept", "old", "purged"]
    assert names(client) == names(client, "/queryAll") == bulk(client) == bulk(client, "queryAll") == before
    assert client.query("SELECT COUNT() FROM Account").json()["totalSize"] == 4
    ids = (kept, changed, deleted, purged, created)
    assert retrieved(client, *ids) == ["kept", "old", "deleted", "purged", None]
    assert client.get(f"/sobjects/Account/{changed}").json()["Name"] == "old"
    assert client.get(f"/sobjects/Account/{created}").status_code == 404
    assert watched.org.record("Account", purged) is None

    watched.clock.advance(LAG - 600)
    assert names(client) == ["deleted", "kept", "newer", "purged"]
    watched.clock.advance(600)
    assert names(client) == bulk(client) == ["created", "kept", "newest"]
    assert names(client, "/queryAll") == ["created", "deleted", "kept", "newest"]
    assert retrieved(client, *ids) == ["kept", "newest", None, None, "created"]
    assert client.get(f"/sobjects/Account/{deleted}").json()[0]["errorCode"] == "ENTITY_IS_DELETED"


def test_the_lists_of_updated_and_deleted_records_lag_too(watched: WatchedOrg, client: RestClient) -> None:
    gone = watched.create()
    watched.clock.advance(120_000)
    watched.settings(rest_delay=LAG)
    watched.commit(lambda work: work.hard_delete("Account", gone))

    def listed(what: str) -> list[str]:
        now = watched.org.clock() / 1000
        span = {
            name: datetime.fromtimestamp(now + seconds, UTC).isoformat()
            for name, seconds in (("start", -3600), ("end", 120))
        }
        answer = client.get(f"/sobjects/Account/{what}", params=span).json()
        return answer["ids"] if what == "updated" else [record["id"] for record in answer["deletedRecords"]]

    assert (listed("updated"), listed("deleted")) == ([gone], [])
    watched.clock.advance(LAG)
    assert (listed("updated"), listed("deleted")) == ([], [gone])


def test_parents_are_shown_as_of_the_same_moment(watched: WatchedOrg, client: RestClient) -> None:
    parent = watched.create(Name="old parent")
    child = watched.create("Contact", LastName="old child", AccountId=parent)
    watched.settings(rest_delay=LAG)
    watched.commit(
        lambda work: [
            work.update("Account", parent, {"Name": "new parent"}),
            work.update("Contact", child, {"LastName": "new child"}),
        ]
    )
    (record,) = client.query("SELECT LastName, Account.Name FROM Contact").json()["records"]
    assert (record["LastName"], record["Account"]["Name"]) == ("old child", "old parent")


def test_pages_of_a_lagging_query_stay_what_they_were(watched: WatchedOrg, client: RestClient) -> None:
    watched.commit(lambda work: [work.create("Account", {"Name": f"{n:04d}"}) for n in range(450)])
    watched.settings(rest_delay=LAG)
    watched.commit(lambda work: [work.create("Account", {"Name": f"{n:04d}"}) for n in range(450, 500)])
    headers = {"Sforce-Query-Options": "batchSize=200"}
    page = client.query("SELECT Name FROM Account ORDER BY Name", headers=headers).json()
    found = page["records"]
    watched.clock.advance(LAG)
    for _ in range(5):
        if page["done"]:
            break
        page = client.get("/" + page["nextRecordsUrl"]).json()
        found += page["records"]
    assert [record["Name"] for record in found] == [f"{n:04d}" for n in range(450)]
    assert page["totalSize"] == 450


def test_without_a_delay_nothing_is_kept(watched: WatchedOrg, client: RestClient) -> None:
    watched.create(Name="a")
    assert names(client) == ["a"]
    watched.settings(rest_delay=LAG)
    watched.create(Name="b")
    assert names(client) == ["a"]
    watched.settings(rest_delay=0)
    assert names(client) == ["a", "b"]
    watched.settings(rest_delay=LAG)
    assert names(client) == ["a", "b"]


def test_a_cleared_field_is_cleared_for_rest_at_once(watched: WatchedOrg, client: RestClient) -> None:
    """A conversion is done by the metadata side of the org, whose view does not lag."""
    record_id = watched.create(Phone="1")
    watched.settings(rest_delay=LAG)
    watched.commit(lambda work: work.clear_field("Account", "Phone"))
    assert client.get(f"/sobjects/Account/{record_id}").json()["Phone"] is None
