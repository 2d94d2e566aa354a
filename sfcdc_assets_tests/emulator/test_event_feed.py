"""Decoded events as they come, and who listens: by the control resource of a served org."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.subscriber import subscribed
from sfcdc_assets_tests.eventually import BOUND_SECONDS


class Control:
    def __init__(self, server: EmulatorServer) -> None:
        self.server = server
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = str(server.ca_file)

    def get(self, path: str, status: int = 200, **parameters: Any) -> Any:
        answer = self.session.get(f"{self.server.rest_url}/emulator{path}", params=parameters, timeout=BOUND_SECONDS)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = self.session.post(f"{self.server.rest_url}/emulator{path}", json=body, timeout=BOUND_SECONDS)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), seed=6)
    yield org
    org.close()


@pytest.fixture
def control(org: EmulatedOrg, tmp_path: Any) -> Iterator[Control]:
    with EmulatorServer(org, directory=tmp_path) as server:
        control = Control(server)
        yield control
        control.session.close()


def accounts(org: EmulatedOrg, *names: str) -> list[str]:
    ids = []
    for name in names:
        with org.transaction() as unit_of_work:
            ids.append(unit_of_work.create("Account", {"Name": name}))
    return ids


def names(page: dict[str, Any]) -> list[str]:
    return [event["payload"]["Name"] for event in page["events"]]


def test_pages_of_the_feed_join_without_holes_or_doubles(org: EmulatedOrg, control: Control) -> None:
    wanted = [f"a{number}" for number in range(7)]
    accounts(org, *wanted)
    found, after = [], 0
    while page := control.get("/feed", after=after, limit=3):
        if not page["events"]:
            break
        found += names(page)
        after = page["next_after"]
    assert found == wanted
    assert names(control.get("/feed", limit=2)) == ["a5", "a6"]


def test_a_watcher_that_fell_behind_may_skip_and_hears_how_much(org: EmulatedOrg, control: Control) -> None:
    accounts(org, *(f"a{number}" for number in range(7)))
    page = control.get("/feed", after=1, limit=2, only_newest="true")
    assert (names(page), page["skipped"]) == (["a5", "a6"], 4)
    page = control.get("/feed", after=5, limit=4, only_newest="true")
    assert (names(page), page["skipped"]) == (["a5", "a6"], 0)


def test_copies_on_custom_channels_are_not_shown_again(org: EmulatedOrg, control: Control) -> None:
    org.channels.create("Sales__chn")
    org.channels.add_member("Sales__chn", "Account", ("Name",))
    accounts(org, "once")
    assert names(control.get("/feed")) == ["once"]


def test_every_kind_of_event_is_shown_once_and_says_what_it_is(org: EmulatedOrg, control: Control) -> None:
    topics, publisher = control.server.cometd.topics, control.server.publisher
    topics.push_topics.create({"Name": "Accounts", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0})
    news = topics.channels.create({"Name": "/u/News"})
    org.clock.advance(1_000)
    (account,) = accounts(org, "a")
    org.clock.advance(1_000)
    publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    org.clock.advance(1_000)
    topics.channels.push(news.id, [{"payload": "hello"}], ())
    org.clock.advance(1_000)
    accounts(org, "b")
    events = control.get("/feed", after=0)["events"]
    assert [(event["kind"], event["entity"]) for event in events] == [
        ("change", "Account"),
        ("PushTopic", "/topic/Accounts"),
        ("platform event", "Order_Event__e"),
        ("generic", "/u/News"),
        ("change", "Account"),
        ("PushTopic", "/topic/Accounts"),
    ]
    assert events[1]["payload"]["sobject"] == {"Id": account, "Name": "a"}
    assert events[1]["payload"]["event"]["type"] == "created"
    assert events[3]["payload"]["payload"] == "hello"
    for name in ("/topic/Accounts", "/u/News", "Order_Event__e"):
        found = control.get("/feed", entity=name)["events"]
        assert {event["entity"] for event in found} == {name}


def test_pages_over_all_kinds_join_without_holes_or_doubles(org: EmulatedOrg, control: Control) -> None:
    topics = control.server.cometd.topics
    topics.push_topics.create({"Name": "Accounts", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0})
    for number in range(5):
        accounts(org, f"a{number}")
        org.clock.advance(700)
    whole = [(event["kind"], event["number"]) for event in control.get("/feed", after=0)["events"]]
    assert len(whole) == 10
    for limit in (1, 3, 4):
        found, after = [], "0"
        while (page := control.get("/feed", after=after, limit=limit))["events"]:
            found += [(event["kind"], event["number"]) for event in page["events"]]
            after = page["next_after"]
        assert found == whole
        newest = control.get("/feed", limit=limit)["events"]
        assert [(event["kind"], event["number"]) for event in newest] == whole[-limit:]
        page = control.get("/feed", after=0, limit=limit, only_newest="true")
        assert (len(page["events"]), page["skipped"]) == (limit, 10 - limit)


def test_what_is_published_or_pushed_ends_the_waiting_too(org: EmulatedOrg, control: Control) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(control.get, "/feed", after=0, wait=30)
        assert control.server.feed.watched.wait(BOUND_SECONDS)
        control.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
        (event,) = answer.result(BOUND_SECONDS)["events"]
    assert event["kind"] == "platform event"


def test_a_request_that_waits_is_answered_by_the_next_commit(org: EmulatedOrg, control: Control) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(control.get, "/feed", after=0, wait=30)
        assert control.server.feed.watched.wait(BOUND_SECONDS)
        accounts(org, "came")
        assert names(answer.result(BOUND_SECONDS)) == ["came"]


def test_events_of_other_objects_do_not_end_the_waiting(org: EmulatedOrg, control: Control) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(control.get, "/feed", after=0, wait=30, entity="Contact")
        assert control.server.feed.watched.wait(BOUND_SECONDS)
        accounts(org, "another")
        with org.transaction() as unit_of_work:
            unit_of_work.create("Contact", {"LastName": "Ada"})
        (event,) = answer.result(BOUND_SECONDS)["events"]
        assert event["entity"] == "Contact"


def test_an_org_that_stops_ends_the_waiting_at_once(org: EmulatedOrg, control: Control) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(control.get, "/feed", after=0, wait=30)
        assert control.server.feed.watched.wait(BOUND_SECONDS)
        control.server.stop()
        assert answer.result(BOUND_SECONDS)["events"] == []


def test_an_event_that_nobody_can_read_is_shown_as_what_it_is(org: EmulatedOrg, control: Control) -> None:
    control.server.faults.arm(Fault.GARBLED_HEADER)
    accounts(org, "unreadable", "readable")
    first, second = control.get("/feed")["events"]
    assert first["payload"].keys() == {"unreadable"}
    assert second["payload"]["Name"] == "readable"


@pytest.mark.parametrize(
    "parameters", [{"after": "x"}, {"limit": "0"}, {"entity": "Nothing"}, {"after": "1", "only_newest": "x"}]
)
def test_a_wrong_parameter_of_the_feed_is_named(control: Control, parameters: dict[str, str]) -> None:
    (name,) = [name for name in parameters if name != "after" or len(parameters) == 1]
    error = control.get("/feed", 400, **parameters)["error"]
    assert parameters[name] in error or name in error


def test_a_subscriber_is_shown_with_its_place_and_its_lag(org: EmulatedOrg, control: Control) -> None:
    accounts(org, *(f"a{number}" for number in range(5)))
    with subscribed(org, control.server, "/data/AccountChangeEvent", 3) as events:
        assert len(events) == 3
        (shown,) = control.get("/subscribers")["subscribers"]
        assert (shown["channel"], shown["lag"], shown["delivered"]) == ("/data/AccountChangeEvent", 2, 3)
        assert (shown["requested"], shown["ended"]) == (0, None)
    (shown,) = control.get("/subscribers")["subscribers"]
    assert shown["ended"] is not None
    accounts(org, "later")
    assert control.get("/subscribers")["subscribers"][0]["lag"] == 3


def test_traffic_has_a_rate(org: EmulatedOrg, control: Control) -> None:
    assert control.get("/traffic/rate") == {"rate": 0}
    assert control.post("/traffic/rate", rate=50) == {"rate": 50}
    assert control.get("/feed", after=0, wait=20)["events"]
    control.post("/traffic/rate", rate=0)
    before = org.last_commit_number
    assert control.get("/traffic/rate") == {"rate": 0}
    assert org.last_commit_number == before
    assert "rate must be a number" in control.post("/traffic/rate", 400, rate="much")["error"]
