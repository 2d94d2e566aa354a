"""`sfcdc sync --until-caught-up` works while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids


def test_what_is_complete_is_applied_before_the_last_transaction_has_settled(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, committed = CurrentState.commit, dict[str, float]()

    def noted(state: CurrentState, *arguments: Any, **options: Any) -> None:
        commit(state, *arguments, **options)
        committed[state.table.name.rpartition("/")[2]] = clock.now_ms() / 1000

    monkeypatch.setattr(CurrentState, "commit", noted)
    for entity, field in (("Account", "Phone"), ("Contact", "LastName")):
        with synced.org.transaction() as work:
            work.update(entity, ids(synced.org, entity)[0], {field: "12345"})
    begun = clock.now_ms() / 1000
    synced.sync()
    settled = begun + load_settings().settle_seconds
    assert committed["Account"] < settled <= committed["Contact"]
    synced.assert_equal_to_the_org()
