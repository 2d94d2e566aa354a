"""The org's pages as a browser without script gets them: what they show, what they change, and what they keep out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.record_editing import ORIGIN_OF_PAGES
from sfcdc_assets.emulator.org.settings import Credentials
from sfcdc_assets.emulator.pages.record_form import changed_texts, form_fields
from sfcdc_assets.emulator.scenarios.scenario import scenarios
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.eventually import BOUND_SECONDS

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
HOSTILE = """"><script>alert('x')</script><img src=x onerror=alert(1)>&amp;"""


class Form(HTMLParser):
    """The form of a page that has this id, or none: what a browser would send if nobody touched it."""

    def __init__(self, page: str, form_id: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sent: list[tuple[str, str]] = []
        self._wanted, self._inside = form_id, False
        self._select = ""
        self._area: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("id", "") == self._wanted
        if not self._inside:
            return
        if tag == "input" and "name" in given and (given.get("type") != "checkbox" or "checked" in given):
            self.sent.append((given["name"], given.get("value", "")))
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select and "selected" in given:
            self.sent.append((self._select, given["value"]))
        elif tag == "textarea":
            self._area, self._area_name = "", given["name"]

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "select":
            self._select = ""
        elif tag == "textarea" and self._area is not None:
            # HTML drops the first line break of an area, and a browser sends CRLF.
            text = self._area.removeprefix("\n")
            self.sent.append((self._area_name, text.replace("\n", "\r\n")))
            self._area = None

    def changed(self, **texts: str) -> list[tuple[str, str]]:
        """What is sent after somebody wrote these texts."""
        return [(name, texts.get(name.removeprefix("field:"), value)) for name, value in self.sent]


class Browser:
    """Requests as a browser sends them."""

    def __init__(self, server: EmulatorServer) -> None:
        self.url = server.rest_url
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = str(server.ca_file)
        self.session.headers.update(HTML)

    def get(self, path: str, status: int = 200, **options: Any) -> str:
        answer = self.session.get(self.url + path, timeout=BOUND_SECONDS, **options)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, form: Any = (), status: int = 200, **options: Any) -> str:
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin", **options.pop("headers", {})}
        answer = self.session.post(self.url + path, data=form, headers=headers, timeout=BOUND_SECONDS, **options)
        assert answer.status_code == status, answer.text
        return answer.text


@pytest.fixture(scope="module")
def org() -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=ManualClock(), seed=6)
    org.populate(5)
    yield org
    org.close()


@pytest.fixture(scope="module")
def server(org: EmulatedOrg, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as server:
        yield server


@pytest.fixture
def browser(server: EmulatorServer) -> Iterator[Browser]:
    browser = Browser(server)
    yield browser
    browser.session.close()
    server.faults.disarm()
    server.rest_faults.disarm()
    server.traffic.set(0)


@pytest.fixture
def account(org: EmulatedOrg) -> str:
    with org.transaction() as unit_of_work:
        return unit_of_work.create("Account", {"Name": "Press Works", "Phone": "1", "Description": "one\r\ntwo"})


def test_the_root_is_a_page_for_browsers_and_what_it_was_for_programs(browser: Browser) -> None:
    assert "<h1>Objects</h1>" in browser.get("/")
    for accept in ("*/*", "application/json"):
        answer = browser.session.get(browser.url + "/", headers={"Accept": accept}, timeout=BOUND_SECONDS)
        assert answer.status_code == 404
        assert answer.json()[0]["errorCode"] == "NOT_FOUND"
    answer = browser.session.post(browser.url + "/", timeout=BOUND_SECONDS)
    assert (answer.status_code, answer.json()[0]["errorCode"]) == (404, "NOT_FOUND")


def test_rest_answers_json_to_browsers_too(browser: Browser) -> None:
    answer = browser.session.get(f"{browser.url}/services/data/v65.0/limits", timeout=BOUND_SECONDS)
    assert answer.status_code == 401
    assert answer.json()[0]["errorCode"] == "INVALID_SESSION_ID"
    assert browser.session.get(f"{browser.url}/nothing", timeout=BOUND_SECONDS).json()[0]["errorCode"] == "NOT_FOUND"


def test_the_first_page_counts_records_and_shows_allowances(browser: Browser, org: EmulatedOrg) -> None:
    page = browser.get("/")
    for entity in org.definitions:
        assert f"/emulator/pages/objects/{entity}" in page
    assert "DailyApiRequests" in page
    assert "DailyDeliveredPlatformEvents" in page


def test_an_object_lists_its_records_and_finds_them(browser: Browser, account: str) -> None:
    assert account in browser.get("/emulator/pages/objects/Account?search=press")
    assert account not in browser.get("/emulator/pages/objects/Account?search=nobody")
    assert "Press Works" in browser.get(f"/emulator/pages/objects/Account?search={account[:15]}")
    assert f"after={account}" not in browser.get("/emulator/pages/objects/Account")
    assert browser.get("/emulator/pages/objects/Nothing", 400).count("is neither a record") == 1


def test_the_address_of_a_record_leads_to_its_page(browser: Browser, account: str) -> None:
    for path in (f"/{account}", f"/{account[:15]}", f"/lightning/r/Account/{account}/view"):
        assert "<h1>Press Works</h1>" in browser.get(path)
    answer = browser.session.get(f"{browser.url}/{account}", headers={"Accept": "*/*"}, timeout=BOUND_SECONDS)
    assert answer.status_code == 404


def test_a_saved_form_changes_what_was_written_and_nothing_else(
    browser: Browser, org: EmulatedOrg, account: str
) -> None:
    page = browser.get(f"/emulator/pages/records/{account}")
    with org.transaction() as unit_of_work:  # meanwhile
        unit_of_work.update("Account", account, {"Phone": "2"})
    after = org.last_commit_number

    said = browser.post(f"/emulator/pages/records/{account}", Form(page, "save").changed(Name="New Press"))

    assert "Saved: Name." in said
    (transaction,) = org.transactions(after)
    (change,) = transaction.changes
    assert change.changed_fields == ("Name", "LastModifiedDate")
    assert transaction.change_origin == ORIGIN_OF_PAGES
    record = org.record("Account", account) or {}
    assert (record["Name"], record["Phone"], record["Description"]) == ("New Press", "2", "one\r\ntwo")
    assert 'class="badge update"' in said


def test_a_form_that_nobody_touched_changes_nothing(browser: Browser, org: EmulatedOrg) -> None:
    for entity, definition in org.definitions.items():
        record = next(iter(org.records(entity)))
        if "Description" in definition.fields_by_name:
            with org.transaction() as unit_of_work:
                unit_of_work.set_silently(entity, str(record["Id"]), {"Description": "\n\n a\tb\r\nc "})
        page = browser.get(f"/emulator/pages/records/{record['Id']}")
        after = org.last_commit_number
        assert "Nothing was changed." in browser.post(
            f"/emulator/pages/records/{record['Id']}", Form(page, "save").sent
        ), entity
        assert org.last_commit_number == after


def test_line_breaks_stay_as_they_were(browser: Browser, org: EmulatedOrg, account: str) -> None:
    page = browser.get(f"/emulator/pages/records/{account}")
    browser.post(f"/emulator/pages/records/{account}", Form(page, "save").changed(Description="one\r\nthree"))
    assert (org.record("Account", account) or {})["Description"] == "one\r\nthree"


def test_what_the_org_refuses_is_said_and_what_was_written_stays(
    browser: Browser, org: EmulatedOrg, account: str
) -> None:
    page = browser.get(f"/emulator/pages/records/{account}")
    form = Form(page, "save").changed(Name="", AnnualRevenue="much")
    said = browser.post(f"/emulator/pages/records/{account}", form, 400)
    assert "Cannot deserialize instance of currency" in said
    assert ("field:AnnualRevenue", "much") in Form(said, "save").sent
    assert (org.record("Account", account) or {})["Name"] == "Press Works"


def test_a_record_is_made_deleted_and_restored(browser: Browser, org: EmulatedOrg) -> None:
    after = org.last_commit_number
    form = Form(browser.get("/emulator/pages/objects/Contact/new"), "").changed(LastName="Ada", Email="ada@x.example")
    said = browser.post("/emulator/pages/objects/Contact/new", form)
    record_id = re.search(r"Contact (003\w{15}) is created", said).group(1)  # type: ignore[union-attr]
    assert "in the recycle bin" in browser.post(f"/emulator/pages/records/{record_id}/delete")
    assert org.count("Contact") == 5
    assert "is back from" in browser.post(f"/emulator/pages/records/{record_id}/undelete")
    kinds = [change.change_type for each in org.transactions(after) for change in each.changes]
    assert kinds == ["CREATE", "DELETE", "UNDELETE"]


def test_a_new_record_without_what_it_needs_is_refused(browser: Browser, org: EmulatedOrg) -> None:
    form = Form(browser.get("/emulator/pages/objects/Contact/new"), "").changed(Email="ada@x.example")
    assert "Required fields are missing: [LastName]" in browser.post("/emulator/pages/objects/Contact/new", form, 400)


def test_a_lead_is_converted_once(browser: Browser, org: EmulatedOrg) -> None:
    with org.transaction() as unit_of_work:
        lead = unit_of_work.create("Lead", {"LastName": "Ada", "Company": "Engines"})
    assert "/convert" in browser.get(f"/emulator/pages/records/{lead}")
    assert "/convert" not in browser.post(f"/emulator/pages/records/{lead}/convert")
    assert "Nothing was changed" in browser.post(f"/emulator/pages/records/{lead}/convert", status=400)


def test_a_record_that_is_gone_is_a_page_that_says_so(browser: Browser, account: str) -> None:
    gone = account[:10] + "zzzzz"
    assert f"There is no record {gone}" in browser.get(f"/emulator/pages/records/{gone}", 404)


def test_hostile_values_are_text_on_every_page(browser: Browser, org: EmulatedOrg) -> None:
    with org.transaction() as unit_of_work:
        record_id = unit_of_work.create("Account", {"Name": HOSTILE, "Description": f"</textarea>{HOSTILE}"})
    paths = ["/", "/emulator/pages/objects/Account", f"/emulator/pages/records/{record_id}", "/emulator/pages/events"]
    paths += ["/emulator/pages/events/rows", f"/emulator/pages/objects/Account?search={HOSTILE}"]
    for path in paths:
        page = browser.get(path)
        assert HOSTILE[2:20] not in page, path
        assert "<img src=x" not in page, path
    page = browser.get(f"/emulator/pages/records/{record_id}")
    assert "Nothing was changed." in browser.post(f"/emulator/pages/records/{record_id}", Form(page, "save").sent)


def test_no_script_but_the_orgs_own_runs_and_no_page_is_framed(browser: Browser, account: str) -> None:
    for path in ("/", f"/emulator/pages/records/{account}", "/emulator/pages/faults", "/emulator/pages/events/rows"):
        headers = browser.session.get(browser.url + path, timeout=BOUND_SECONDS).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "<script>" not in browser.get(path)


def test_no_page_holds_a_secret(browser: Browser, org: EmulatedOrg, account: str) -> None:
    credentials = org.settings.credentials
    secrets = [
        getattr(credentials, each.name) for each in fields(Credentials) if not each.repr and each.name != "public_key"
    ]
    assert len(secrets) == 4
    user = org.users.integration
    for path in ("/", f"/{account}", f"/{user}", "/emulator/pages/faults", "/emulator/pages/scenarios"):
        page = browser.get(path)
        assert not [secret for secret in secrets if secret in page], path


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "[::1"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/emulator/pages/faults/stream_reset", "/emulator/faults/stream_reset", "/emulator/recycle-bin/empty"]
)
def test_a_page_elsewhere_cannot_change_the_org(
    browser: Browser, server: EmulatorServer, headers: dict[str, str], path: str
) -> None:
    answer = requests.post(
        browser.url + path, data="{}", headers=headers, verify=browser.session.verify, timeout=BOUND_SECONDS
    )
    assert answer.status_code == 403
    assert not server.faults.armed(Fault.STREAM_RESET)


def test_a_name_that_somebody_makes_lead_here_is_not_answered(browser: Browser) -> None:
    for path in ("/", "/emulator/state"):
        answer = browser.session.get(browser.url + path, headers={"Host": "evil.example"}, timeout=BOUND_SECONDS)
        assert answer.status_code == 403


def test_programs_that_are_no_browsers_need_no_headers(browser: Browser, server: EmulatorServer) -> None:
    answer = requests.post(
        f"{browser.url}/emulator/faults/stream_reset", verify=browser.session.verify, timeout=BOUND_SECONDS
    )
    assert answer.json() == {"armed": 1}


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


@given(text=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=300))
def test_any_text_goes_through_a_form_unchanged(org: EmulatedOrg, text: str) -> None:
    definition = org.definitions["Account"]
    shown = form_fields(definition, {"Description": text, "Name": text})
    sent = {name: (value,) for each in shown if each.control for name, value in _as_sent(each)}
    assert changed_texts(definition, sent) == {}
    assert next(each for each in form_fields(definition, {"Name": f"{text}\0"}) if each.name == "Name").control == ""


def _as_sent(field: Any) -> Iterator[tuple[str, str]]:
    yield field.shown_name, field.shown_digest
    text = field.text.replace("\n", "\r\n") if field.control == "area" else field.text.replace("\n", "")
    yield field.input_name, text or ("false" if field.control == "checkbox" else "")


def test_the_pages_are_in_what_is_installed() -> None:
    import tomllib  # noqa: PLC0415 - only this test reads the project's file

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]["sfcdc_assets"]
    assert "emulator/pages/templates/*.html" in data
    assert "emulator/pages/static/*" in data
