"""Person accounts through the pipeline: two tables stay in step with the org, whichever side tells of a change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.records.person_account import BUSINESS_TYPE, PERSON_TYPE
from sfcdc_assets.org_reads import read_back
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, Rows
from sfcdc_assets_tests.pipeline.rest_records import RestRecords, differences
from sfcdc_assets_tests.pipeline.story import Entry, ledger, story, unhealed, waits
from sfcdc_assets_tests.pipeline.version_checks import in_order

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact")
PERSON = {
    "Salutation": "Ms.",
    "FirstName": "Ada",
    "LastName": "Byron",
    "PersonEmail": "ada@example.com",
    "PersonMailingCity": "London",
    "PersonHasOptedOutOfEmail": True,
    "Level__pc": "Primary",
    "Description": "a" * 1200,
}


@dataclass
class People:
    """The org's people by what happens to them, and what the tables held after each sync."""

    pipeline: EmulatedPipeline
    rest: RestRecords
    accounts: dict[str, str] = field(default_factory=dict)
    contacts: dict[str, str] = field(default_factory=dict)
    tables: list[dict[str, Rows]] = field(default_factory=list)
    ledgers: list[list[Entry]] = field(default_factory=list)
    differing: list[list[str]] = field(default_factory=list)
    """After each sync: where a living record of either table differs from REST."""

    def person(self, name: str, **values: object) -> None:
        """A new person account."""
        self.accounts[name] = self.rest.create("Account", [{**PERSON, **values}])[0]
        self.contacts[name] = str((self.pipeline.org.record("Account", self.accounts[name]) or {})["PersonContactId"])

    def business(self, name: str) -> None:
        """A new business account with one contact."""
        self.accounts[name] = self.rest.create("Account", [{"Name": name}])[0]
        values = {"LastName": name, "FirstName": "Mary", "AccountId": self.accounts[name], "Email": "m@example.com"}
        self.contacts[name] = self.rest.create("Contact", [values])[0]

    def update(self, name: str, **values: object) -> None:
        self.rest.update("Account", {self.accounts[name]: values})

    def sync(self) -> None:
        description = len(ledger(self.pipeline, *ENTITIES))
        self.pipeline.sync()
        self.ledgers.append(ledger(self.pipeline, *ENTITIES)[description:])
        self.tables.append({entity: self.pipeline.rows(entity) for entity in ENTITIES})
        self.pipeline.assert_equal_to_the_org(ENTITIES)
        self.differing.append([])
        for entity, rows in self.tables[-1].items():
            living = [record_id for record_id, row in rows.items() if not row["_is_deleted"]]
            self.differing[-1] += differences(rows, self.rest.rows(entity, living))

    def suspects(self, sync: int) -> set[tuple[str, str, str]]:
        """Entity, who, and why of the entries that a sync opened."""
        names = {record_id: name for by_name in (self.accounts, self.contacts) for name, record_id in by_name.items()}
        return {(each["entity"], names[each["record_id"]], each["reason"]) for each in self.ledgers[sync]}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    folder = tmp_path_factory.mktemp("people")
    with story(folder, ENTITIES, records=3) as pipeline, pytest.MonkeyPatch.context() as patch:
        pipeline.org.setup.enable_person_accounts()
        description = People(pipeline, RestRecords(pipeline))
        for name in ("old", "renamed", "touched", "deleted", "restored"):
            description.person(name)
        for name in ("becoming", "unseen", "between", "firm"):
            description.business(name)
        patch.setenv("SFCDC_ENTITIES", "Contact")
        pipeline.sync()

        description.update("between", RecordTypeId=PERSON_TYPE)
        patch.delenv("SFCDC_ENTITIES")
        description.sync()

        description.person("new", FirstName=None, Salutation=None)
        description.update("renamed", FirstName="Augusta", LastName="Lovelace", PersonEmail=None)
        description.rest.update("Contact", {description.contacts["old"]: {"LastName": "King", "MailingCity": None}})
        description.update("touched", Industry="Energy", PersonMailingCity="Ulm", Level__pc=None)
        description.update("becoming", RecordTypeId=PERSON_TYPE[:15])
        description.business("at once")
        description.update("at once", RecordTypeId=PERSON_TYPE)
        description.update("firm", Name="Firm 2")
        for name in ("deleted", "restored"):
            description.rest.delete("Account", description.accounts[name])
        description.rest.undelete("Account", description.accounts["restored"])
        description.sync()

        description.update("becoming", RecordTypeId=BUSINESS_TYPE)
        # A reading takes so many records at a time and leaves the rest to the next.
        patch.setattr(read_back, "RECORDS", 1)
        pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
        description.update("unseen", RecordTypeId=PERSON_TYPE)
        description.sync()
        yield description


def test_both_tables_equal_the_org_after_each_sync(people: People) -> None:
    assert people.differing == [[], [], []]
    assert all(not waits(rows) for tables in people.tables for rows in tables.values())
    assert unhealed(people.pipeline, *ENTITIES) == []


def test_a_person_has_its_parts_its_whole_name_and_its_contacts_fields(people: People) -> None:
    row = people.tables[1]["Account"][people.accounts["renamed"]]
    assert (row["Name"], row["FirstName"], row["Salutation"]) == ("Augusta Lovelace", "Augusta", "Ms.")
    assert row["PersonContactId"] == people.contacts["renamed"]
    assert (row["PersonEmail"], row["PersonMailingCity"], row["Level__pc"]) == (None, "London", "Primary")
    other = people.tables[1]["Account"][people.accounts["old"]]
    assert (other["Name"], other["LastName"], other["PersonMailingCity"]) == ("Ada King", "King", None)
    assert people.tables[1]["Account"][people.accounts["new"]]["Name"] == "Byron"


def test_only_a_person_whose_name_the_events_left_open_is_read_back(people: People) -> None:
    names = {
        ("Account", name, "missing_value") for name in ("new", "renamed", "old", "becoming", "restored", "at once")
    }
    assert people.suspects(0) == {("Contact", "between", "silent_change")}
    assert people.suspects(1) == names | {("Contact", name, "silent_change") for name in ("becoming", "at once")}
    assert people.suspects(2) == {
        ("Contact", "becoming", "silent_change"),
        ("Account", "unseen", "GAP_UPDATE"),
        ("Contact", "unseen", "silent_change"),
    }


def test_a_contact_follows_its_account_into_being_a_person_and_back(people: People) -> None:
    def is_person(name: str) -> list[bool]:
        return [tables["Contact"][people.contacts[name]]["IsPersonAccount"] for tables in people.tables]

    assert is_person("becoming") == [False, True, False]
    assert is_person("unseen") == [False, False, True]
    assert is_person("between") == is_person("old") == [True, True, True]
    assert people.tables[1]["Contact"][people.contacts["at once"]]["IsPersonAccount"]
    account = people.tables[2]["Account"][people.accounts["becoming"]]
    assert (account["Name"], account["LastName"], account["PersonEmail"]) == ("Mary becoming", None, None)


def test_a_person_goes_and_comes_back_in_both_tables(people: People) -> None:
    for entity, ids in (("Account", people.accounts), ("Contact", people.contacts)):
        rows = people.tables[1][entity]
        assert rows[ids["deleted"]]["_is_deleted"]
        assert rows[ids["deleted"]]["LastName"] == "Byron"
        assert not rows[ids["restored"]]["_is_deleted"]
    assert people.tables[1]["Account"][people.accounts["restored"]]["Name"] == "Ada Byron"


def test_history_dates_what_no_event_said_by_its_reading_and_is_certain_of_nothing_before(people: People) -> None:
    ordered = sorted(people.pipeline.all_versions("Contact"), key=in_order)
    versions = [row for row in ordered if row["Id"] == people.contacts["becoming"]]
    assert [(row["_change_type"], row["IsPersonAccount"]) for row in versions] == [
        ("SNAPSHOT", False), ("UNKNOWN", False), ("REFETCH", True), ("UNKNOWN", True), ("REFETCH", False),
    ]  # fmt: skip
    assert [_is_certain(row, "IsPersonAccount") for row in versions] == [True, False, True, False, True]
    read = [row for row in versions if row["_change_type"] == "REFETCH"]
    assert [row["_changed_fields"] for row in read] == [["IsPersonAccount"]] * 2
    dates = [row["_valid_from"] for row in versions if row["_change_type"] != "UNKNOWN"]
    assert dates == sorted(set(dates)), "a contact was no person before it was seen to be one"


def test_history_has_the_event_and_the_name_that_was_read_after_it(people: People) -> None:
    versions = [
        (row["_change_type"], row["LastName"], row["Name"], row["_changed_fields"], _is_certain(row, "Name"))
        for row in sorted(people.pipeline.all_versions("Account"), key=lambda row: row["_position"])
        if row["Id"] == people.accounts["new"]
    ]
    assert versions == [("CREATE", "Byron", None, None, False), ("REFETCH", "Byron", "Byron", ["Name"], True)]


def _is_certain(row: dict[str, Any], name: str) -> bool:
    return row["_certain_fields"] is None or name in row["_certain_fields"]


@pytest.mark.parametrize("hidden", ["Account.PersonContactId", "Account.PersonContactId,Contact.IsPersonAccount"])
def test_a_contact_is_found_by_the_hash_that_its_account_has_of_it(tmp_path, monkeypatch, hidden):
    with story(tmp_path / "org", ("Account", "Contact"), records=3) as pipeline:
        monkeypatch.setenv("SFCDC_HASH", hidden)
        monkeypatch.setenv("SFCDC_HASH_KEY", "0123456789abcdef0123456789abcdef")
        pipeline.org.setup.enable_person_accounts()
        rest = RestRecords(pipeline)
        rest.create("Account", [{**PERSON}])
        business = rest.create("Account", [{"Name": "firm"}])[0]
        contact = rest.create("Contact", [{"LastName": "c", "FirstName": "Mary", "AccountId": business}])[0]
        for _ in range(2):
            pipeline.sync()
        before = {row["Id"]: row for row in pipeline.scan("current_state/Contact")}[contact]["IsPersonAccount"]
        rest.update("Account", {business: {"RecordTypeId": PERSON_TYPE}})
        for _ in range(2):
            pipeline.sync()
        entries = ledger(pipeline, "Contact")
        assert {entry["status"] for entry in entries if entry["record_id"] == contact} == {"healed"}
        assert not [entry for entry in entries if entry["status"] == "open"]
        assert business not in str(entries), "which account it belongs to is what was to be hidden"
        after = {row["Id"]: row for row in pipeline.scan("current_state/Contact")}[contact]["IsPersonAccount"]
        assert before != after
        assert pipeline.org.record("Contact", contact)["IsPersonAccount"]
