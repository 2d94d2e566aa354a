"""Objects that no channel carries: copied, asked for what changed, and equal to the org, in tables like the others'."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

OBJECTS = ("Case", "Opportunity", "Invoice_Statement__c")


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    """Accounts raise events; three other objects are polled."""
    made = make_pipeline("Account", records=8)
    monkeypatch.setenv("SFCDC_POLL", ",".join(OBJECTS))
    return made


def test_a_polled_object_equals_the_org_after_changes_deletes_and_undeletes(pipeline: EmulatedPipeline) -> None:
    pipeline.sync()
    pipeline.assert_equal_to_the_org(["Account", *OBJECTS])
    first, second, third, *_ = ids(pipeline.org, "Opportunity")
    with pipeline.org.transaction() as work:
        work.update("Opportunity", first, {"Name": "Changed", "Amount": 12.5})
        work.update("Opportunity", third, {"NextStep": None})
        work.delete("Opportunity", second)
        work.create("Opportunity", {"Name": "New", "StageName": "Prospecting", "CloseDate": "2026-01-31"})
    pipeline.org.clock.sleep(1000)
    pipeline.sync()
    pipeline.assert_equal_to_the_org(["Account", *OBJECTS])
    with pipeline.org.transaction() as work:
        work.undelete("Opportunity", second)
        work.update("Opportunity", first, {"Name": "Changed again"})
    pipeline.org.clock.sleep(1000)
    pipeline.sync()
    pipeline.assert_equal_to_the_org(["Account", *OBJECTS])
