"""`sfcdc verify` against what is known to be equal, and against what was changed behind the stream's back."""

from __future__ import annotations

import json

from typer.testing import CliRunner, Result

from sfcdc_assets.cli.main import app
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def test_tables_that_equal_the_org_are_said_to_be_equal(synced: EmulatedPipeline) -> None:
    result = verify("--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["equal"]) == (0, True)
    by_entity = {report["entity"]: report for report in told["entities"]}
    assert by_entity.keys() == {"Account", "Contact"}
    assert by_entity["Account"]["in_org"] == by_entity["Account"]["in_table"] == synced.org.count("Account")
    assert by_entity["Account"]["values_compared"] > 40 * synced.org.count("Account")


def test_a_value_changed_behind_the_streams_back_is_named_with_record_and_field(synced: EmulatedPipeline) -> None:
    org, record = synced.org, ids(synced.org, "Account")[7]
    with org.database.transaction():
        org.store.update(org.definitions["Account"], record, {"Site": "nobody heard of it"})
    result = verify()
    assert result.exit_code == 3
    assert f"Account {record} Site: org 'nobody heard of it'" in result.stdout
    told = json.loads(verify("--json", "--entity", "Account").stdout)
    (difference,) = told["entities"][0]["differences"]
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


def test_a_record_with_an_event_that_is_not_applied_yet_is_in_motion_and_no_drift(synced: EmulatedPipeline) -> None:
    org = synced.org
    with org.transaction() as one:
        one.update("Account", ids(org, "Account")[0], {"Name": "on its way"})
        one.create("Account", {"Name": "on its way too"})
    result = verify("--json", "--entity", "Account")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["entities"][0]["in_motion"] == 2


def test_an_entity_that_no_channel_carries_cannot_be_verified(synced: EmulatedPipeline) -> None:
    result = verify("--entity", "Acount")
    assert result.exit_code == 1
    assert "Acount" in result.stderr
    assert "Account" in result.stderr
