"""Channels of one's own, made by the Tooling API and read by the Pub/Sub API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.event_store import EVERYWHERE, OWN_TOPIC
from sfcdc_assets.emulator.events.topic import find_topic
from sfcdc_assets_tests.emulator.decoded_events import DecodedEvent, WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

CHANNEL = "/tooling/sobjects/PlatformEventChannel"
MEMBER = "/tooling/sobjects/PlatformEventChannelMember"
TEN_FIELDS = ["Name", "Phone", "Fax", "Website", "Industry", "Rating", "Type", "Sic", "Ownership", "TickerSymbol"]
SALES = "SalesEvents__chn"


@pytest.fixture
def watched() -> WatchedOrg:
    watched = WatchedOrg()
    watched.org.channels.create(SALES)
    return watched


def events(watched: WatchedOrg, *channels: str) -> list[DecodedEvent]:
    batch = watched.bus.read(
        watched.org.definitions, after=0, max_events=1000, max_bytes=10**9, channels=channels or (EVERYWHERE,)
    )
    return [watched.decoded(event) for event in batch.events]


def test_an_object_on_two_channels_has_one_event_on_both_with_one_uuid(watched: WatchedOrg) -> None:
    watched.org.channels.add_member(SALES, "Account")
    watched.create()
    watched.create("Contact", LastName="c")
    (here, contact), (there,) = events(watched), events(watched, SALES)
    assert contact.header["entityName"] == "Contact"
    assert there.stored.event_id == here.stored.event_id
    assert there.stored.replay_id == here.stored.replay_id
    assert (there.body, there.header) == (here.body, here.header)


def test_channels_may_have_replay_ids_of_their_own(watched: WatchedOrg) -> None:
    watched.settings(channels_share_replay_ids=False)
    watched.org.channels.add_member(SALES, "Account")
    watched.create()
    (here,), (there,) = events(watched), events(watched, SALES)
    assert there.stored.replay_id > here.stored.replay_id
    assert there.stored.event_id == here.stored.event_id


def test_an_object_only_custom_channels_have_is_not_on_the_channel_of_all(watched: WatchedOrg) -> None:
    watched.org.selected_entities = ["Contact"]
    watched.org.channels.add_member(SALES, "Account")
    watched.create()
    assert events(watched) == []
    assert len(events(watched, SALES)) == 1
    assert len(events(watched, EVERYWHERE, OWN_TOPIC)) == 1


@pytest.mark.parametrize("share", [True, False])
def test_enriched_events_come_one_by_one_beside_each_other(watched: WatchedOrg, share: bool) -> None:
    watched.settings(siblings_share_event_id=share)
    watched.org.channels.add_member(SALES, "Account", ["Name", "BillingAddress"])
    ids = [watched.create(Name=name, BillingCity="Lyon") for name in ("a", "b")]
    watched.commit(lambda work: [work.update("Account", one, {"Rating": "Hot"}) for one in ids])
    grouped, single = events(watched)[-1], events(watched, SALES)[-2:]
    assert grouped.header["recordIds"] == ids
    assert grouped.body["Name"] is None
    assert [event.header["recordIds"] for event in single] == [[one] for one in ids]
    assert [event.body["Name"] for event in single] == ["a", "b"]
    assert single[0].body["BillingAddress"]["City"] == "Lyon"
    assert single[0].header["changedFields"] == grouped.header["changedFields"]
    assert {event.stored.replay_id for event in single} == {grouped.stored.replay_id}
    assert single[0].stored.event_id == grouped.stored.event_id
    assert (single[1].stored.event_id == grouped.stored.event_id) == share


def test_gap_events_are_not_enriched(watched: WatchedOrg) -> None:
    watched.org.channels.add_member(SALES, "Account", ["Name"])
    watched.create(Active__c="Yes")
    watched.org.setup.change_type("Account", "Active__c", {"type": "multipicklist"})
    last = events(watched, SALES)[-1]
    assert last.header["changeType"] == "GAP_UPDATE"
    assert last.set_fields == set()


def test_the_members_of_the_channel_of_all_can_be_enriched_too(watched: WatchedOrg) -> None:
    (member,) = (one for one in watched.org.channels.members() if one.entity == "Account")
    watched.org.channels.enrich(member.id, ["Name"])
    record_id = watched.create()
    watched.update(record_id, Rating="Hot")
    assert events(watched)[-1].body["Name"] == "Acme"


def test_enriched_fields_follow_a_new_name(watched: WatchedOrg) -> None:
    watched.org.channels.add_member(SALES, "Account", ["SLASerialNumber__c"])
    record_id = watched.create(SLASerialNumber__c="5")
    watched.org.setup.rename_field("Account", "SLASerialNumber__c", "Serial__c")
    watched.update(record_id, Rating="Hot")
    assert events(watched, SALES)[-1].body["Serial__c"] == "5"
    watched.org.setup.drop_field("Account", "Serial__c")
    watched.update(record_id, Rating="Cold")
    assert events(watched, SALES)[-1].body["Rating"] == "Cold"


def test_a_custom_channel_is_a_topic_of_several_objects(watched: WatchedOrg) -> None:
    topic = find_topic(watched.org, f"/data/{SALES}")
    assert topic is not None
    assert (topic.entity, topic.channels) == (None, (SALES,))
    assert find_topic(watched.org, "/data/Other__chn") is None
    assert find_topic(watched.org, f"/event/{SALES}") is None


def test_what_makes_no_sense_is_refused(watched: WatchedOrg) -> None:
    channels = watched.org.channels
    channels.add_member(SALES, "Lead")
    for change in (
        lambda: channels.create("Sales"),
        lambda: channels.create(SALES.lower()),
        lambda: channels.add_member("Other__chn", "Account"),
        lambda: channels.add_member(SALES, "Nonsense"),
        lambda: channels.add_member(SALES, "Lead"),
        lambda: channels.add_member(SALES, "Account", ["SystemModstamp"]),
        lambda: channels.add_member(SALES, "Account", [*TEN_FIELDS, "Site"]),
        lambda: channels.delete("0YL000000000000AAA"),
        lambda: channels.member("0v8000000000000AAA"),
    ):
        with pytest.raises(RecordError):
            change()


def test_ten_fields_of_an_object_are_enriched_over_all_channels(watched: WatchedOrg) -> None:
    channels = watched.org.channels
    channels.create("Other__chn")
    member = channels.add_member(SALES, "Account", TEN_FIELDS)
    channels.add_member("Other__chn", "Account", TEN_FIELDS[:3])
    with pytest.raises(RecordError, match="over all channels"):
        channels.enrich(channels.members()[-1].id, ["Site"])
    channels.enrich(member.id, TEN_FIELDS[:9])
    channels.enrich(channels.members()[-1].id, ["Site"])
    assert channels.members()[-1].enriched_fields == ("Site",)


def test_a_channel_that_is_deleted_takes_its_members_with_it(watched: WatchedOrg) -> None:
    channels = watched.org.channels
    channels.add_member(SALES, "Lead")
    channels.delete(channels.all()[0].id)
    assert [member for member in channels.members() if member.channel == SALES] == []
    assert find_topic(watched.org, f"/data/{SALES}") is None
    channels.create(SALES)
    watched.create("Lead", LastName="l", Company="c")
    assert events(watched, SALES) == []


@pytest.fixture
def client(watched: WatchedOrg) -> Iterator[RestClient]:
    with rest_client(watched.org) as client:
        yield client


def tooling(client: RestClient, soql: str) -> list[dict[str, Any]]:
    return client.get("/tooling/query", params={"q": soql}).json()["records"]


def test_the_tooling_api_makes_changes_and_removes_channels_and_members(
    watched: WatchedOrg, client: RestClient
) -> None:
    made = client.post(CHANNEL, {"FullName": "More__chn", "Metadata": {"channelType": "data", "label": "More"}})
    assert made.status_code == 201
    channel_id = made.json()["id"]
    assert channel_id.startswith("0YL")
    metadata = {
        "eventChannel": "More__chn",
        "selectedEntity": "AccountChangeEvent",
        "enrichedFields": [{"name": "Name"}, {"name": "SLA__c"}],
    }
    member = {"FullName": "More_chn_AccountChangeEvent", "Metadata": metadata}
    member_id = client.post(MEMBER, member).json()["id"]
    assert member_id.startswith("0v8")
    assert client.get(f"{MEMBER}/{member_id}").json()["FullName"] == "More_chn_AccountChangeEvent"
    assert client.get(f"{CHANNEL}/{channel_id}").json()["Metadata"]["label"] == "More"
    (row,) = tooling(client, "SELECT Id, DeveloperName, SelectedEntity FROM PlatformEventChannelMember "
                             f"WHERE EventChannel = '{channel_id}'")  # fmt: skip
    assert (row["Id"], row["DeveloperName"]) == (member_id, "More_chn_AccountChangeEvent")
    names = {row["DeveloperName"] for row in tooling(client, "SELECT DeveloperName FROM PlatformEventChannel")}
    assert names == {SALES.removesuffix("__chn"), "More"}
    fields = [row["Field"] for row in tooling(client, f"SELECT Field FROM EnrichedField WHERE ChannelMemberId = "
                                                      f"'{member_id}'")]  # fmt: skip
    assert fields[0] == "Name"
    assert (fields[1][:3], len(fields[1])) == ("00N", 18)
    patch = client.send("PATCH", f"{MEMBER}/{member_id}", json={"Metadata": {"enrichedFields": []}})
    assert patch.json()[0]["errorCode"] == "REQUIRED_FIELD_MISSING", "a definition is a whole one"
    whole = {"Metadata": {**metadata, "enrichedFields": []}}
    assert client.send("PATCH", f"{MEMBER}/{member_id}", json=whole).status_code == 204
    assert tooling(client, "SELECT Field FROM EnrichedField") == []
    assert client.send("DELETE", f"{MEMBER}/{member_id}").status_code == 204
    assert client.send("PATCH", f"{CHANNEL}/{channel_id}", json={"Metadata": {"label": "x"}}).status_code == 204
    assert client.send("DELETE", f"{CHANNEL}/{channel_id}").status_code == 204
    assert client.get(f"{CHANNEL}/{channel_id}").status_code == 404


def test_metadata_is_queried_of_one_row_at_a_time(watched: WatchedOrg, client: RestClient) -> None:
    watched.org.channels.add_member(SALES, "Account", ["Name"])
    watched.org.channels.create("Other__chn", "Other")
    soql = "SELECT Id, FullName, Metadata, ManageableState FROM PlatformEventChannel"
    (error,) = client.get("/tooling/query", params={"q": soql}).json()
    assert error["errorCode"] == "MALFORMED_QUERY"
    assert error["message"].endswith("no more than one row for retrieval. Result size: 2")
    (row,) = tooling(client, f"{soql} WHERE DeveloperName = 'Other'")
    assert (row["FullName"], row["ManageableState"]) == ("Other__chn", "unmanaged")
    assert row["Metadata"] == {"channelType": "data", "label": "Other"}
    by_id = client.get(f"{CHANNEL}/{row['Id']}").json()
    assert (by_id["Metadata"], by_id["FullName"]) == (row["Metadata"], row["FullName"])
    assert by_id["CreatedDate"].endswith("+0000")
    soql = "SELECT Metadata FROM PlatformEventChannelMember WHERE DeveloperName = 'SalesEvents_chn_AccountChangeEvent'"
    assert [row["Metadata"] for row in tooling(client, soql)] == [
        {
            "eventChannel": SALES,
            "selectedEntity": "AccountChangeEvent",
            "enrichedFields": [{"name": "Name"}],
            "filterExpression": None,
        }
    ]


def test_the_tooling_api_describes_its_objects(client: RestClient) -> None:
    objects = client.get("/tooling/sobjects").json()["sobjects"]
    assert [each["name"] for each in objects] == [
        "EnrichedField", "ManagedEventSubscription", "PlatformEventChannel", "PlatformEventChannelMember",
    ]  # fmt: skip
    for each in objects:
        described = client.get(each["urls"]["describe"].replace("/services/data/v59.0", "")).json()
        names = [field["name"] for field in described["fields"]]
        assert client.get("/tooling/query", params={"q": f"SELECT {', '.join(names)} FROM {each['name']} LIMIT 1"}).ok
    assert client.get("/tooling/sobjects/Nonsense/describe").status_code == 404


def test_objects_are_selected_and_deselected_by_members_of_the_channel_of_all(
    watched: WatchedOrg, client: RestClient
) -> None:
    watched.org.selected_entities = ["Account"]
    metadata = {"eventChannel": "ChangeEvents", "selectedEntity": "LeadChangeEvent"}
    made = client.post(MEMBER, {"FullName": "ChangeEvents_LeadChangeEvent", "Metadata": metadata})
    assert watched.org.selected_entities == ["Account", "Lead"]
    assert client.send("DELETE", f"{MEMBER}/{made.json()['id']}").status_code == 204
    assert watched.org.selected_entities == ["Account"]


def of_account(client: RestClient) -> dict[str, Any]:
    (row,) = tooling(
        client,
        "SELECT Id, CreatedDate, LastModifiedDate FROM PlatformEventChannelMember "
        "WHERE SelectedEntity = 'AccountChangeEvent'",
    )
    return {name: row[name] for name in ("Id", "CreatedDate", "LastModifiedDate")}


def test_an_object_that_was_off_the_channel_of_all_and_is_back_has_another_member(
    watched: WatchedOrg, client: RestClient
) -> None:
    before = of_account(client)
    watched.org.selected_entities.remove("Account")
    watched.clock.advance(5_000)
    watched.create("Contact", LastName="while it was off")
    watched.org.selected_entities.append("Account")
    after = of_account(client)
    assert after["Id"] != before["Id"]
    assert after["CreatedDate"] > before["CreatedDate"]


def test_whoever_changes_a_member_moves_its_time_and_keeps_its_id(watched: WatchedOrg, client: RestClient) -> None:
    watched.org.selected_entities = ["Contact"]
    member = watched.org.channels.add_member(SALES, "Account")
    seen = [of_account(client)]
    for change in (
        lambda: watched.org.channels.filter_events(member.id, "Rating = 'Hot'"),
        lambda: watched.org.channels.filter_events(member.id, None),
        lambda: watched.org.channels.enrich(member.id, ["Name"]),
    ):
        watched.clock.advance(5_000)
        change()
        seen.append(of_account(client))
    assert {(each["Id"], each["CreatedDate"]) for each in seen} == {(seen[0]["Id"], seen[0]["CreatedDate"])}
    assert sorted({each["LastModifiedDate"] for each in seen}) == [each["LastModifiedDate"] for each in seen]


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (CHANNEL, {"FullName": "X__chn", "Metadata": {"channelType": "other"}}, "channelType"),
        (CHANNEL, {"Metadata": {"channelType": "data"}}, "FullName"),
        (MEMBER, {"FullName": "x"}, "Metadata"),
        (MEMBER, {"FullName": "x", "Metadata": {"eventChannel": SALES, "selectedEntity": "Account"}}, "no events"),
        (
            MEMBER,
            {
                "FullName": "x",
                "Metadata": {
                    "eventChannel": SALES, "selectedEntity": "AccountChangeEvent", "filterExpression": "Nmae = 'a'",
                },
            },
            "Nmae",
        ),
    ],
)  # fmt: skip
def test_the_tooling_api_says_what_is_wrong(client: RestClient, path: str, body: dict[str, Any], text: str) -> None:
    answer = client.post(path, body)
    assert answer.status_code == 400
    assert text in answer.json()[0]["message"]
