"""`sfcdc verify` against what is known to be equal, and against what was changed behind the stream's back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from sfcdc_assets.cli import verify as verify_command
from sfcdc_assets.cli.main import app
from sfcdc_assets.reconciliation.audit import ROUNDS
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def test_tables_that_equal_the_org_are_reported_as_equal(synced: EmulatedPipeline) -> None:
    result = verify("--json")
    description = json.loads(result.stdout)
    assert (result.exit_code, description["equal"]) == (0, True)
    by_entity = {report["entity"]: report for report in description["entities"]}
    assert by_entity.keys() == {"Account", "Contact"}
    assert by_entity["Account"]["in_org"] == by_entity["Account"]["in_table"] == synced.org.count("Account")
    assert by_entity["Account"]["compared"] == synced.org.count("Account")
    assert by_entity["Account"]["values_compared"] > 40 * synced.org.count("Account")


def test_a_value_changed_behind_the_streams_back_is_named_with_record_and_field(synced: EmulatedPipeline) -> None:
    org, record = synced.org, ids(synced.org, "Account")[7]
    with org.database.transaction():
        org.store.update(org.definitions["Account"], record, {"Site": "nobody heard of it"})
    result = verify()
    assert result.exit_code == 3
    assert f"Account {record} Site: org 'nobody heard of it'" in result.stdout
    description = json.loads(verify("--json", "--entity", "Account").stdout)
    (difference,) = description["entities"][0]["differences"]
    assert (difference["record_id"], difference["field"]) == (record, "Site")
    assert verify("--entity", "Contact").exit_code == 0


def test_a_record_that_only_one_side_has_is_named(synced: EmulatedPipeline) -> None:
    org = synced.org
    account, contact = ids(org, "Account")[3], ids(org, "Contact")[4]
    with org.database.transaction():
        org.store.purge(org.definitions["Account"], account, org.clock())
    org.selected_entities = ["Account"]
    with org.transaction() as unheard:
        unheard.delete("Contact", contact)
        created = unheard.create("Contact", {"LastName": "of no event"})
    org.selected_entities = ["Account", "Contact"]
    result = verify()
    assert result.exit_code == 3
    assert f"Account {account}: not in the org" in result.stdout
    assert f"Contact {contact}: not in the org" in result.stdout
    assert f"Contact {created}: missing in the table" in result.stdout


def test_records_that_changed_meanwhile_are_compared_again_until_all_are(synced: EmulatedPipeline) -> None:
    """Most of the table: it is not equal before these were compared as well."""
    org = synced.org
    changed = ids(org, "Account")[:25]
    with org.transaction() as one:
        for number, record in enumerate(changed[1:]):
            one.update("Account", record, {"Name": f"on its way {number}"})
        one.create("Account", {"Name": "on its way too"})
        one.delete("Account", changed[0])
    assert one.committed is not None
    # With those whose parent account it was, as of its other children nobody verifies.
    again = sum(change.entity == "Account" for change in one.committed.changes)
    result = verify("--json", "--entity", "Account")
    (description,) = json.loads(result.stdout)["entities"]
    assert (result.exit_code, description["equal"]) == (0, True)
    # Those of day 0, the deleted one among them, and the new one.
    assert (description["compared"], description["compared_again"]) == (31, again)
    assert (description["changed_meanwhile"], description["suspects"]) == (0, 0)
    synced.assert_equal_to_the_org()


def test_a_record_that_differs_is_found_though_it_changed_meanwhile(synced: EmulatedPipeline) -> None:
    org, record = synced.org, ids(synced.org, "Account")[3]
    with org.database.transaction():
        org.store.update(org.definitions["Account"], record, {"Site": "nobody heard of it"})
    with org.transaction() as one:
        one.update("Account", record, {"Name": "heard of"})
    result = verify("--json", "--entity", "Account")
    description = json.loads(result.stdout)
    assert (result.exit_code, description["equal"]) == (3, False)
    (difference,) = description["entities"][0]["differences"]
    assert (difference["record_id"], difference["field"]) == (record, "Site")


def test_records_that_change_each_time_are_counted_and_not_said_to_be_equal(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an org that never rests, or where nothing is applied any more."""
    org = synced.org
    synced_again: list[int] = []
    monkeypatch.setattr(verify_command, "_sync", lambda *_, **__: synced_again.append(1))
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.1")
    with org.transaction() as one:
        for record in ids(org, "Account")[:20]:
            one.update("Account", record, {"Name": "never applied"})
    result = verify("--json", "--entity", "Account")
    (description,) = json.loads(result.stdout)["entities"]
    assert (result.exit_code, description["equal"], description["differences"]) == (1, False, [])
    assert (description["compared"], description["changed_meanwhile"], len(synced_again)) == (10, 20, ROUNDS)
    shown = verify("--entity", "Account")
    assert "20 records could not be compared: 20 changed each time" in shown.stdout
    assert shown.exit_code == 1


def test_a_record_that_the_org_cannot_give_is_counted_and_the_others_are_compared(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    org, bad = synced.org, ids(synced.org, "Account")[3]
    monkeypatch.setattr(verify_command, "_sync", lambda *_, **__: None)
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "0.1")
    org.settings = replace(org.settings, spoiled_records={bad: ("NumberOfEmployees",)})
    result = verify("--json", "--entity", "Account")
    assert result.stdout, result.exception
    (description,) = json.loads(result.stdout)["entities"]
    assert (result.exit_code, description["equal"], description["differences"]) == (1, False, [])
    assert (description["compared"], description["unreadable"], description["suspects"]) == (29, 1, 0)


def test_what_rest_may_show_late_is_not_taken_for_drift(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is ahead of what REST shows; it is compared again when REST has caught up."""
    org, record = synced.org, ids(synced.org, "Account")[3]
    monkeypatch.setenv("SFCDC_VISIBILITY_SECONDS", "3")
    org.settings = replace(org.settings, rest_delay=3000)
    with org.transaction() as one:
        one.update("Account", record, {"Name": "ahead of REST"})
    synced.sync()
    result = verify("--json", "--entity", "Account")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["entities"][0]["compared"] == 30


def test_an_entity_that_no_channel_carries_cannot_be_verified(synced: EmulatedPipeline) -> None:
    result = verify("--entity", "Acount")
    assert result.exit_code == 1
    assert "Acount" in result.stderr
    assert "Account" in result.stderr
