"""`sfcdc topics` against the emulated org: lists, plans, applies, and refuses in the vendor's words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.streaming.push_topics import PushTopics
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.event_channels.push_topics.test_definitions import GOOD, write
from sfcdc_assets_tests.trusted_authority import trust_only_the_org

INVOICES = {
    "Name": "InvoiceStatementUpdates",
    "Query": "SELECT Id, Name, Status__c, Description__c FROM Invoice_Statement__c",
    "ApiVersion": 60.0,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    """One org for all; each test begins without topics."""
    org = EmulatedOrg(seed=5)
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as served:
        yield org, served
    org.close()


@pytest.fixture
def in_org(server: tuple[EmulatedOrg, EmulatorServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[PushTopics]:
    """The org's topics; its client's settings are the environment's."""
    org, served = server
    trust_only_the_org(monkeypatch)
    for name, value in served.client_environment().items():
        monkeypatch.setenv(name, value)
    Path("push_topics").mkdir()
    topics = served.cometd.topics.push_topics
    yield topics
    for each in topics.all():
        topics.delete(each.id)
    org.unreadable_objects.clear()
    org.hidden_objects.clear()


def define(file: str, values: dict[str, Any]) -> Path:
    return write(Path("push_topics"), file, values)


def test_definitions_are_planned_and_applied_and_a_second_time_there_is_nothing_to_do(in_org: PushTopics) -> None:
    define("invoices.toml", INVOICES)
    define("accounts.toml", GOOD)
    shown = sfcdc("topics", "apply")
    assert shown.exit_code == 1
    assert "+ create InvoiceStatementUpdates\n    SELECT Id, Name, Status__c" in shown.stdout
    assert "Nothing was changed" in shown.stderr
    assert in_org.all() == [], "a plan that nobody agreed to is not applied"
    applied = sfcdc("topics", "apply", "--yes")
    assert applied.exit_code == 0, applied.stderr
    assert "Applied: Good, InvoiceStatementUpdates." in applied.stdout
    assert {each.name: each.values["NotifyForFields"] for each in in_org.all()} == {
        "Good": "Referenced",
        "InvoiceStatementUpdates": "Referenced",
    }
    again = sfcdc("topics", "apply")
    assert (again.exit_code, again.stdout.strip().splitlines()[-1]) == (0, "Nothing to apply.")


def test_a_change_and_a_deactivation_are_shown_field_by_field_and_a_foreign_topic_stays(in_org: PushTopics) -> None:
    foreign = in_org.create({**GOOD, "Name": "Foreign"})
    define("accounts.toml", GOOD)
    define("invoices.toml", INVOICES)
    assert sfcdc("topics", "apply", "--yes").exit_code == 0
    define("accounts.toml", {**GOOD, "Query": "SELECT Id, Name, Phone FROM Account", "NotifyForOperationDelete": False})
    define("invoices.toml", {**INVOICES, "IsActive": False})
    done = sfcdc("topics", "apply", "--yes")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[:6] == [
        "- deactivate InvoiceStatementUpdates",
        "    IsActive: true -> false",
        "~ change Good",
        "    Query: SELECT Id, Name FROM Account -> SELECT Id, Name, Phone FROM Account",
        "    NotifyForOperationDelete: true -> false",
        "  only in the org, left as they are: Foreign",
    ]
    by_name = {each.name: each for each in in_org.all()}
    assert by_name["Foreign"] == foreign
    assert by_name["InvoiceStatementUpdates"].values["IsActive"] is False
    assert by_name["Good"].values["Query"] == "SELECT Id, Name, Phone FROM Account"
    Path("push_topics/invoices.toml").unlink()
    assert sfcdc("topics", "apply").exit_code == 0, "a file that is gone changes nothing in the org"
    assert len(in_org.all()) == 3


def test_topics_are_listed_beside_their_files(in_org: PushTopics) -> None:
    in_org.create({**GOOD, "Name": "Foreign", "IsActive": False})
    in_org.create({**GOOD, "NotifyForFields": "All"})
    define("accounts.toml", GOOD)
    define("invoices.toml", INVOICES)
    listed = json.loads(sfcdc("topics", "--json").stdout)
    assert {each["name"]: each["state"] for each in listed} == {
        "Foreign": "inactive, only in the org",
        "Good": "differs: NotifyForFields",
        "InvoiceStatementUpdates": "not created yet",
    }
    shown = sfcdc("topics").stdout
    assert "Foreign (inactive, only in the org)\n    SELECT Id, Name FROM Account\n" in shown
    assert "    notifies of created, updated, deleted, undeleted; looks at All fields\n" in shown


def test_the_plan_warns_of_changes_that_are_not_noticed(in_org: PushTopics) -> None:
    define("c.toml", {**GOOD, "Query": "SELECT Id, FirstName, Email FROM Contact"})
    shown = sfcdc("topics", "apply")
    assert "! Good: changes of FirstName are not noticed; name the field Name too" in shown.stdout
    assert json.loads(sfcdc("topics", "apply", "--json").stdout)["warnings"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"Query": "SELECT Id, Name FROM Contact LIMIT 10"},
            "push_topics/bad.toml, Query: INVALID_FIELD, 'LIMIT' is not allowed. Leave it out",
        ),
        ({"Name": "A" * 26}, "push_topics/bad.toml, Name: STRING_TOO_LONG, Name: data value too large"),
        ({"Query": "SELECT Id, Nothing FROM Account"}, "No such column 'Nothing' on entity 'Account'"),
        ({"Query": "SELECT Id, X FROM Nothing__c"}, "push_topics/bad.toml, Query: NOT_FOUND"),
        ({"Query": "SELECT Id, Name FROM Account WHERE AnnualRevenue = 'x'"}, "push_topics/bad.toml, Query: INVALID_"),
    ],
)
def test_a_bad_definition_is_refused_and_nothing_is_created(
    in_org: PushTopics, values: dict[str, Any], text: str
) -> None:
    define("a_good_one.toml", GOOD)
    define("bad.toml", {**INVOICES, **values})
    assert text in refusal(sfcdc("topics", "apply", "--yes"))
    assert in_org.all() == []


def test_an_object_without_read_permission_is_named_with_what_to_change(
    in_org: PushTopics, server: tuple[EmulatedOrg, EmulatorServer]
) -> None:
    define("invoices.toml", INVOICES)
    org, _ = server
    org.unreadable_objects.add("Invoice_Statement__c")
    said = refusal(sfcdc("topics", "apply", "--yes"))
    assert "push_topics/invoices.toml, Query: INSUFFICIENT_ACCESS, no read access to object" in said
    assert "give the user read access to Invoice_Statement__c" in said
    org.unreadable_objects.add("PushTopic")
    org.unreadable_objects.remove("Invoice_Statement__c")
    for command in (("topics",), ("topics", "apply", "--yes")):
        assert "Give the user Read on the object Push Topics" in refusal(sfcdc(*command))
    assert in_org.all() == []


def test_what_the_org_refuses_itself_undoes_all_of_it(
    in_org: PushTopics, server: tuple[EmulatedOrg, EmulatorServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    org, _ = server
    define("a.toml", GOOD)
    define("b.toml", INVOICES)
    for number in range(org.settings.push_topics - 1):
        in_org.create({**GOOD, "Name": f"Filler{number}"})
    said = refusal_after_a_plan("topics", "apply", "--yes")
    assert "The org refused the PushTopic InvoiceStatementUpdates" in said
    assert "LIMIT_EXCEEDED" in said
    assert "Deactivate a topic that nobody reads" in said
    assert "No topic was created or changed." in said
    assert all(each.name.startswith("Filler") for each in in_org.all())


def refusal_after_a_plan(*arguments: str) -> str:
    done = sfcdc(*arguments)
    assert done.exit_code == 1
    (line,) = done.stderr.strip().splitlines()
    return line


def test_a_folder_that_is_not_there_is_a_wrong_setting(in_org: PushTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_PUSH_TOPICS", "elsewhere")
    assert "SFCDC_PUSH_TOPICS: there is no folder elsewhere" in refusal(sfcdc("topics", "apply"))
