"""What the org's pages keep out: scripts of others, changes from other pages, names that lead here, and secrets."""

from __future__ import annotations

from dataclasses import fields

import pytest
import requests

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import Credentials
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.emulator.pages.browser import Browser, Form
from sfcdc_assets_tests.eventually import BOUND_SECONDS

HOSTILE = """"><script>alert('x')</script><img src=x onerror=alert(1)>&amp;"""


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
