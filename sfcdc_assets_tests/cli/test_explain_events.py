"""`sfcdc explain` of events: where each lies, which commit and run landed it, and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream, stream

ORDERS, TEXTS = "/event/Order_Event__e", "/u/Texts"
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=20.0)


@pytest.fixture
def org(landed: Stream, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The org, whose warehouse the settings of this test name."""
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(landed.root))
    return landed


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    """Three orders, of which the last cannot be read, in two commits, the second of a run; two more with one id; and
    a text."""
    with stream(tmp_path_factory.mktemp("explain"), records=1) as opened:
        publisher, user = opened.server.publisher, opened.org.users.integration
        publisher.publish("Order_Event__e", {"Order_Number__c": "A"})
        land(opened, ORDERS)
        publisher.publish("Order_Event__e", {"Order_Number__c": "B"})
        opened.server.faults.arm(Fault.GARBLED_BODY)
        publisher.publish("Order_Event__e", {"Order_Number__c": "C"})
        land(opened, ORDERS, "the-run")
        definition = opened.org.platform_events.all["Order_Event__e"]
        for number in ("D", "E"):
            draft = publisher.draft(definition, {"Order_Number__c": number}, user)
            publisher.store([replace(draft, event_id="one-id")])
        land(opened, ORDERS)
        channel = opened.server.cometd.topics.channels.create({"Name": TEXTS})
        opened.server.cometd.topics.channels.push(channel.id, [{"payload": "a text"}], [])
        land(opened, TEXTS)
        yield opened


def land(org: Stream, channel: str, run_id: str = "") -> None:
    reader = ChannelReader(org.warehouse, org.connected, channel, SETTLE, run_id)
    reader.land(QUICK)
    reader.drop()


def explained(*arguments: str) -> list[dict[str, Any]]:
    done = sfcdc("explain", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_event_is_found_by_its_id_its_replay_id_and_its_position(org: Stream) -> None:
    row = landed_rows(org.warehouse, ORDERS)[1]
    by_id = explained(ORDERS, row["event_id"])
    assert by_id == explained(ORDERS, row["replay_id"].hex()) == explained(ORDERS, "@2")
    (number,) = explained(ORDERS, "@2", "order_number__c")
    assert (number["field"], number["value"], number["change_type"]) == ("Order_Number__c", "B", "Order_Event__e")
    assert (number["commit_user"], number["change_origin"]) == (org.org.users.integration, ORDERS)
    assert (number["position"], number["suspect"]) == (2, None)
    assert (number["landed_first"], number["landed_last"], number["run_id"]) == (2, 3, "the-run")


def test_an_event_that_could_not_be_read_says_why_and_where_it_is(org: Stream) -> None:
    (unread,) = explained(ORDERS, "@3")
    assert (unread["field"], unread["value"], unread["position"]) == (None, None, 3)
    assert "cannot be read with the schema" in unread["suspect"]
    shown = sfcdc("explain", ORDERS, "@3").stdout
    assert "landed in platform_events/Order_Event__e, version" in shown
    assert "(positions 2 to 3), by run the-run" in shown
    assert "not all of it is in columns: the payload cannot be read" in shown


def test_events_of_one_id_are_all_shown(org: Stream) -> None:
    assert [row["value"] for row in explained(ORDERS, "one-id", "Order_Number__c")] == ["D", "E"]
    shown = sfcdc("explain", ORDERS, "one-id").stdout
    assert shown.count("event one-id: position") == 2


def test_a_text_is_explained_and_an_event_that_is_not_there_is_named_with_what_to_write(org: Stream) -> None:
    (text,) = explained(TEXTS, "@1")
    assert (text["field"], text["value"], text["change_type"], text["commit_user"]) == (
        "payload",
        "a text",
        "pushed",
        None,
    )
    assert explained(TEXTS, text["replay_id"]) == [text]
    assert "by a sensor's tick or a command" in sfcdc("explain", TEXTS, text["event_id"]).stdout
    assert f"{TEXTS} has no event nothing. Name it by its id, its replay id, or @" in refusal(
        sfcdc("explain", TEXTS, "nothing")
    )
