"""The example messages of the vendor's guide, as far as they are the org's and not one client's print (Streaming API
Developer Guide, chapters 2 to 7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sfcdc_assets_tests.emulator.cometd_service.emulated import Emulated
from sfcdc_assets_tests.emulator.test_push_topics import create, follow, messages

INVOICES = "/topic/InvoiceStatementUpdates"


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    with closing(Emulated()) as emulated:
        yield emulated


def received(emulated: Emulated) -> list[tuple[str, dict[str, Any]]]:
    """Kind and fields of what has come; the replay ids rise and every event has its date."""
    found = messages(emulated)
    ids = [each["event"]["replayId"] for each in found]
    assert ids == sorted(set(ids))
    assert all(each.keys() == {"event", "sobject"} for each in found)
    assert all(each["event"].keys() == {"createdDate", "replayId", "type"} for each in found)
    return [(each["event"]["type"], each["sobject"]) for each in found]


def test_invoice_statements_of_the_quick_start(emulated: Emulated) -> None:
    query = "SELECT Id, Name, Status__c, Description__c FROM Invoice_Statement__c"
    create(emulated, query, Name="InvoiceStatementUpdates", NotifyForFields="Referenced")
    follow(emulated, INVOICES)
    with emulated.org.transaction() as work:
        invoice = work.create("Invoice_Statement__c", {"Status__c": "Open", "Description__c": "New invoice."})
    with emulated.org.transaction() as work:
        work.update("Invoice_Statement__c", invoice, {"Status__c": "Negotiating"})
    (_, created), (_, updated) = found = received(emulated)
    assert [kind for kind, _ in found] == ["created", "updated"]
    assert created == {"Id": invoice, "Name": created["Name"], "Status__c": "Open", "Description__c": "New invoice."}
    assert updated == {**created, "Status__c": "Negotiating"}


def test_test_accounts_of_the_replay_example(emulated: Emulated) -> None:
    create(emulated, "SELECT Id, Name, Website FROM Account", Name="TestAccountStreaming")
    channel = "/topic/TestAccountStreaming"
    follow(emulated, channel)
    with emulated.org.transaction() as work:
        account = work.create("Account", {"Name": "Lightning"})
    with emulated.org.transaction() as work:
        work.update("Account", account, {"Name": "Lightning_UPDATED"})
    with emulated.org.transaction() as work:
        work.delete("Account", account)
    expected: list[tuple[str, dict[str, Any]]] = [
        ("created", {"Website": None, "Id": account, "Name": "Lightning"}),
        ("updated", {"Website": None, "Id": account, "Name": "Lightning_UPDATED"}),
        ("deleted", {"Id": account}),
    ]
    assert received(emulated) == expected
    left = emulated.send("/meta/unsubscribe", subscription=channel)
    assert left == {
        "clientId": emulated.client_id,
        "channel": "/meta/unsubscribe",
        "id": "7",
        "subscription": channel,
        "successful": True,
    }
    joined = emulated.subscribe(channel, -2)
    assert joined == {**left, "channel": "/meta/subscribe"}
    assert received(emulated) == expected, "all are replayed"


def test_a_name_brings_its_parts(emulated: Emulated) -> None:
    create(emulated, "SELECT Id, Name, Email FROM Contact")
    follow(emulated)
    with emulated.org.transaction() as work:
        contact = work.create("Contact", {"FirstName": "Ada", "LastName": "Lovelace"})
    ((kind, values),) = received(emulated)
    assert kind == "created"
    assert values.items() >= {"Id": contact, "FirstName": "Ada", "LastName": "Lovelace", "Email": None}.items()


def test_messages_of_a_generic_channel(emulated: Emulated) -> None:
    channels = emulated.service.topics.channels
    channel = channels.create({"Name": "/u/TestStreaming"})
    channels.push(channel.id, [{"payload": "Test message", "userIds": []}] * 5, ())
    follow(emulated, "/u/TestStreaming", -2)
    old = messages(emulated)
    assert [each["payload"] for each in old] == ["Test message"] * 5
    channels.push(channel.id, [{"payload": "New Events", "userIds": []}] * 3, ())
    new = messages(emulated)
    assert all(
        each.keys() == {"payload", "event"} and each["event"].keys() == {"createdDate", "replayId"} for each in new
    )
    assert [each["payload"] for each in new] == ["New Events"] * 3
    follow(emulated, "/u/TestStreaming", old[-1]["event"]["replayId"])
    assert messages(emulated) == new


def test_three_topics_are_subscribed_to_by_one_array_of_messages(emulated: Emulated) -> None:
    for name in ("foo", "bar", "baz"):
        create(emulated, "SELECT Id, Name FROM Account", Name=name)
    emulated.handshake()
    own = {"channel": "/meta/subscribe", "clientId": emulated.client_id}
    answer = emulated.call(*({**own, "subscription": f"/topic/{name}"} for name in ("foo", "bar", "baz")))
    assert [reply["successful"] for reply in answer.messages] == [True] * 3
    emulated.update(Name="for all of them")
    assert {each["channel"] for each in emulated.connect() if "data" in each} == {
        "/topic/foo",
        "/topic/bar",
        "/topic/baz",
    }
