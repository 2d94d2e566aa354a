"""The org's pages as a browser without script gets them: what they show of records, and what they change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.record_editing import ORIGIN_OF_PAGES
from sfcdc_assets.emulator.pages.record_form import changed_texts, form_fields
from sfcdc_assets_tests.emulator.pages.browser import Browser, Form
from sfcdc_assets_tests.eventually import BOUND_SECONDS


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

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]["sfcdc_assets"]
    assert "emulator/pages/templates/*.html" in data
    assert "emulator/pages/static/*" in data
