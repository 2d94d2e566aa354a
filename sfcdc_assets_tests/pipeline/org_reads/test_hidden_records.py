"""Records that a read did not show, and that events show to be there: the row is suspect, and not changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.lake.tables import open_suspect
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.stepwise import connected
from sfcdc_assets_tests.pipeline.version_checks import in_order


def test_an_update_of_a_record_that_a_snapshot_did_not_show_reads_it_back(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_suspect, "FIRST_PAUSE_MS", 0)
    pipeline = make_pipeline("Account", records=15)
    pipeline.org.hidden_objects.add("PermissionSetAssignment")
    with connected(pipeline) as copy:
        copy.snapshot()
        copy.catch_up()
        copy.emulated.view_all.withdraw()
        copy.snapshot()
        copy.catch_up()
        hidden = [record_id for record_id in ids(copy.emulated, "Account") if record_id not in copy.living()]
        assert hidden, "the snapshot was believed"
        copy.emulated.view_all.give_back()
        with copy.emulated.transaction() as work:
            work.update("Account", hidden[0], {"Site": "here"})
        copy.later(5)
        copy.catch_up()
        copy.catch_up()
        row = pipeline.rows("Account")[hidden[0]]
    found = {
        each["record_id"]: (each["reason"], each["status"]) for each in pipeline.scan("gap_reconciliation/Account")
    }
    assert found[hidden[0]] == ("deleted_record", "healed")
    assert (row["Site"], row["_is_deleted"], row["_in_doubt"]) == ("here", False, False)
    versions = sorted((each for each in pipeline.all_versions("Account") if each["Id"] == hidden[0]), key=in_order)
    deleted, update = versions[-3:-1]
    assert (deleted["_change_type"], deleted["_is_deleted"]) == ("DELETE", True)
    assert (update["_change_type"], update["_is_deleted"]) == ("UPDATE", False), "an update shows that it is there"
    assert "Site" in update["_certain_fields"]
    assert "Name" not in update["_certain_fields"]
