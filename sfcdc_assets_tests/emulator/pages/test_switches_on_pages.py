"""Faults, traffic and scenarios of the org, switched on and off by its pages, and what the feed shows."""

from __future__ import annotations

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.scenarios.scenario import scenarios
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.pages.browser import Browser
from sfcdc_assets_tests.eventually import BOUND_SECONDS


def test_the_feed_says_of_which_kind_each_event_is(browser: Browser, server: EmulatorServer, org: EmulatedOrg) -> None:
    topics = server.cometd.topics
    topic = topics.push_topics.create({"Name": "Kinds", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 60.0})
    with org.transaction() as work:
        work.create("Account", {"Name": "of two kinds"})
    server.publisher.publish("Order_Event__e", {"Order_Number__c": "4711"})
    page = browser.get("/emulator/pages/events")
    topics.push_topics.delete(topic.id)
    for kind in ("change", "PushTopic", "platform event"):
        assert f'<span class="kind quiet">{kind}</span>' in page
    for shown in ("/topic/Kinds", "of two kinds", "4711", ">published<", ">created<"):
        assert shown in page
    only = browser.get("/emulator/pages/events?entity=Order_Event__e")
    assert "4711" in only
    assert "of two kinds" not in only


def test_every_fault_is_a_switch(browser: Browser, server: EmulatorServer) -> None:
    page = browser.get("/emulator/pages/faults")
    assert page.count('role="switch"') == len(Fault) + len(RestFault)
    assert 'aria-checked="true"' not in page
    form = {"do": "on", "times": "3", "after": "4", "seconds": ""}
    assert "3 ×" in browser.post("/emulator/pages/faults/stream_pause", form)
    assert server.faults.armed(Fault.STREAM_PAUSE) == 3
    assert server.faults.option(Fault.STREAM_PAUSE, "after", 0) == 4
    assert server.faults.option(Fault.STREAM_PAUSE, "seconds", 5) == 5
    page = browser.post("/emulator/pages/rest-faults/timeout", {"do": "on", "path": "/query", "retry_after": ""})
    assert page.count('aria-checked="true"') == 2
    page = browser.post("/emulator/pages/faults/stream_pause", {"do": "off"})
    assert page.count('aria-checked="true"') == 1
    assert browser.post("/emulator/pages/faults/off").count('aria-checked="true"') == 0
    assert "times must be a whole number" in browser.post("/emulator/pages/faults/duplicate", {"times": "x"}, 400)


def test_what_an_administrator_or_salesforce_brings_about_is_a_switch(
    browser: Browser, server: EmulatorServer, org: EmulatedOrg
) -> None:
    faults = "/emulator/pages/faults"
    browser.post(f"{faults}/rest_lag", {"do": "on", "behind": "60"})
    assert org.rest_delay == 60_000
    browser.post(f"{faults}/rest_lag", {"do": "off"})
    assert org.rest_delay == 0
    browser.post(f"{faults}/permission_withdrawn", {"do": "on"})
    assert not org.view_all.of_all_data
    assert "1 ×" in browser.get(faults)
    browser.post(f"{faults}/permission_withdrawn", {"do": "off"})
    assert org.view_all.of_all_data
    token = server.sessions.issue(org.users.integration)
    browser.post(f"{faults}/tokens_expired", {"do": "on"})
    assert server.sessions.user_of(token) is None
    before = org.instance_name
    browser.post(f"{faults}/instance_move", {"do": "on"})
    assert org.instance_name != before
    browser.post(f"{faults}/replay_ids_expired", {"do": "on"})
    assert not server.feed.newest(1, "Account").events


def test_traffic_is_switched_on_and_off(browser: Browser, server: EmulatorServer) -> None:
    assert "Traffic: 2 transactions a second." in browser.post("/emulator/pages/traffic", {"rate": "2"})
    assert server.traffic.rate == 2
    assert "Traffic is off." in browser.post("/emulator/pages/traffic", {"rate": "0"})
    assert "rate must be a number" in browser.post("/emulator/pages/traffic", {"rate": "-1"}, 400)


def test_every_scenario_has_a_button_that_plays_it(browser: Browser) -> None:
    page = browser.get("/emulator/pages/scenarios")
    for name in scenarios():
        assert f'action="/emulator/pages/scenarios/{name}"' in page
    said = browser.post("/emulator/pages/scenarios/lead-conversion")
    assert "A lead is converted: " in said
    assert "CREATE of Contact 003" in said
    assert "UPDATE of Lead 00Q" in said
    assert "There is no scenario x" in browser.post("/emulator/pages/scenarios/x", status=400)


def test_a_notice_is_shown_once(browser: Browser) -> None:
    answer = browser.session.post(
        f"{browser.url}/emulator/pages/traffic", data={"rate": "0"}, timeout=BOUND_SECONDS, allow_redirects=False
    )
    path = answer.headers["Location"]
    assert "Traffic is off." in browser.get(path)
    assert "Traffic is off." not in browser.get(path)
