"""The org's pages as a person uses them: a record looked at and changed, its event in the feed, a fault switched.

`SCREENSHOTS=1 python -m pytest sfcdc_assets_tests/emulator/test_pages_in_a_browser.py` writes the picture of the docs
to docs/images.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sfcdc_assets.cli.demo_parts.emulated_org import open_emulated_org
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.subscriber import subscribed
from sfcdc_assets_tests.ui.browser import SCREENSHOTS, image, opened_page, without_browser

pytestmark = [without_browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def org(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedOrg]:
    org = open_emulated_org(
        tmp_path_factory.mktemp("org"), seed=1, records=1_000 if SCREENSHOTS else 5, with_stock=SCREENSHOTS
    )
    yield org
    org.close()


@pytest.fixture(scope="module")
def server(org: EmulatedOrg, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    # The org's certificate is its own: a person goes on after the warning.
    with opened_page(tmp_path_factory.mktemp("chromium"), 1280, 860, ignore_https_errors=True) as page:
        yield page


@pytest.fixture(scope="module")
def account(org: EmulatedOrg) -> str:
    with org.transaction() as unit_of_work:
        return unit_of_work.create("Account", {"Name": "Acme <b>Press</b>", "Description": "one\ntwo", "Rating": "Hot"})


def test_a_record_is_found_changed_and_its_event_comes_by_itself(
    server: EmulatorServer, org: EmulatedOrg, page: Page, account: str
) -> None:
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(server.rest_url)
    page.get_by_role("link", name="Account", exact=True).click()
    page.get_by_label("Id or part of the name").fill("acme <b>")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=account).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Acme <b>Press</b>")
    page.get_by_label("Account Name").fill("Acme Press & Sons")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("Saved: Name.")
    expect(page.locator(".event").first).to_contain_text("Acme Press & Sons")
    (transaction,) = list(org.transactions())[-1:]
    assert transaction.changes[0].changed_fields == ("Name", "LastModifiedDate")

    with org.transaction() as unit_of_work:  # somebody else, while the page is looked at
        unit_of_work.update("Account", account, {"Phone": "+41 31 000 00 00"})
    expect(page.locator(".event").first).to_contain_text("+41 31 000 00 00")
    page.locator(".event").first.click()
    expect(page.locator(".event pre").first).to_contain_text('"changeType": "UPDATE"')
    assert not wrong


def test_a_form_that_nobody_touched_changes_nothing(
    server: EmulatorServer, org: EmulatedOrg, page: Page, account: str
) -> None:
    with org.transaction() as unit_of_work:
        unit_of_work.set_silently("Account", account, {"Description": "\n\n a\r\nb\t c\n"})
    page.goto(f"{server.rest_url}/{account}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("Nothing was changed.")


def test_a_fault_is_switched_on_and_strikes_and_is_off_by_itself(
    server: EmulatorServer, org: EmulatedOrg, page: Page, account: str
) -> None:
    page.goto(server.rest_url)
    page.get_by_role("link", name="Faults", exact=True).click()
    fault = page.get_by_role("switch", name="internal_error", exact=True)
    expect(fault).to_have_attribute("aria-checked", "false")
    fault.click()
    expect(page.get_by_role("switch", name="internal_error", exact=True)).to_have_attribute("aria-checked", "true")
    assert server.faults.armed(Fault.INTERNAL_ERROR) == 1
    with org.transaction() as unit_of_work:
        unit_of_work.update("Account", account, {"Phone": "1"})
    page.get_by_role("heading", name="Faults").click()  # the switch is not kept as it is for a finger on it
    expect(page.get_by_role("switch", name="internal_error", exact=True)).to_have_attribute("aria-checked", "false")
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.locator(".event").first).to_contain_text("GAP_UPDATE")


def test_a_scenario_is_played(server: EmulatorServer, page: Page) -> None:
    page.goto(f"{server.rest_url}/emulator/pages/scenarios")
    page.get_by_role("button", name="Play: A record is created").click()
    expect(page.get_by_role("status")).to_contain_text("A record is created: CREATE of")
    expect(page.locator(".event").first).to_contain_text("CREATE")


def test_no_page_is_wider_than_a_telephone(server: EmulatorServer, page: Page, account: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    try:
        for path in (
            "/",
            f"/{account}",
            "/emulator/pages/events",
            "/emulator/pages/faults",
            "/emulator/pages/scenarios",
        ):
            page.goto(server.rest_url + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            if SCREENSHOTS:
                page.screenshot(path=looked_at(f"phone{path.replace('/', '-')}.png"))
    finally:
        page.set_viewport_size({"width": 1280, "height": 860})


@pytest.mark.skipif(not SCREENSHOTS, reason="SCREENSHOTS=1 makes the pictures")
def test_the_picture_of_the_docs(server: EmulatorServer, org: EmulatedOrg, page: Page, account: str) -> None:
    for name in ("large-text", "lead-conversion", "several-objects", "merge", "overflow", "delete-undelete", "create"):
        page.goto(f"{server.rest_url}/emulator/pages/scenarios")
        page.locator(f"form[action$='/{name}'] button").click()
    topics = server.cometd.topics
    query = "SELECT Id, Name, Phone FROM Account"
    topics.push_topics.create({"Name": "Accounts", "Query": query, "ApiVersion": 60.0})
    with org.transaction() as work:
        work.update("Account", account, {"Phone": "(415) 555-1212"})
    server.publisher.publish("Order_Event__e", {"Order_Number__c": "4711"})
    server.faults.arm(Fault.COMETD_SILENCE, 2)
    with subscribed(org, server, "/data/ChangeEvents", 9):
        page.goto(server.rest_url)
        expect(page.locator(".event")).to_have_count(10)
        page.screenshot(path=image("emulated-org.png"), full_page=True)
    for path in (f"/{account}", "/emulator/pages/events", "/emulator/pages/faults", "/emulator/pages/scenarios"):
        page.goto(server.rest_url + path)
        page.screenshot(path=looked_at(f"wide{path.replace('/', '-')}.png"))
    page.emulate_media(color_scheme="dark")
    page.goto(server.rest_url)
    page.screenshot(path=looked_at("dark.png"))


def looked_at(name: str) -> Path:
    """Where a picture goes that is for looking at alone."""
    folder = Path("/tmp/pages-of-the-org")
    folder.mkdir(exist_ok=True)
    return folder / name
