"""Another org takes a warehouse over: on purpose only, and then all of the other's records may vanish."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.org_connection.same_organization import WrongOrganization
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, assert_same_rows, expected_rows, ids
from sfcdc_assets_tests.pipeline.story import ledger

RECORDS = 30
"""All of them vanish, which is not believed of one and the same org."""


def test_an_accepted_org_takes_the_place_of_another_and_history_goes_on(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = make_pipeline("Account", records=RECORDS, seed=23)
    monkeypatch.setenv("SFCDC_SETTLE_SECONDS", "0.5")
    with ours.org.transaction() as one:
        one.update("Account", ids(ours.org, "Account")[0], {"Name": "of the org of before"})
    ours.sync()
    before = ours.rows("Account")

    theirs = make_pipeline("Account", records=RECORDS, seed=24)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(ours.warehouse))
    with pytest.raises(WrongOrganization):
        theirs.sync()
    assert ours.rows("Account") == before

    command = ["rebuild", "--from-org", "--accept-organization", theirs.org.organization_id]
    accepted = CliRunner().invoke(app, command)
    assert accepted.exit_code == 0, accepted.output
    rows = ours.rows("Account")
    of_before = {record_id: rows.pop(record_id) for record_id in before}
    assert {row["_deleted_reason"] for row in of_before.values()} == {"hard_deleted"}
    suspects = {(each["reason"], each["status"]) for each in ledger(ours, "Account") if each["record_id"] == "*"}
    assert suspects == {("lost_checkpoint", "healed")}, "members of another org are not taken for changed ones"
    assert_same_rows("Account", rows, expected_rows(theirs.org, "Account"))
    assert {row["Id"] for row in ours.all_versions("Account")} >= before.keys()
    description = CliRunner().invoke(app, ["verify", "--json"])
    assert description.exit_code == 0, description.output


def test_an_object_that_the_org_before_had_polled_and_the_accepted_one_has_in_its_channel_is_copied_again(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a full sandbox was refreshed with has the same Ids and old stamps, so nothing but a copy would tell."""
    with monkeypatch.context() as before:
        ours = make_pipeline("Account", records=3, seed=23)
        before.setenv("SFCDC_CHANNELS", "none")
        before.setenv("SFCDC_POLL", "Account")
        ours.sync()
    theirs = make_pipeline("Account", records=3, seed=24)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(ours.warehouse))
    command = ["rebuild", "--from-org", "--accept-organization", theirs.org.organization_id]
    accepted = CliRunner().invoke(app, command)
    assert accepted.exit_code == 0, accepted.output
    suspects = {(each["reason"], each["status"]) for each in ledger(ours, "Account") if each["record_id"] == "*"}
    assert suspects == {("lost_checkpoint", "healed"), ("other_channel", "healed")}
