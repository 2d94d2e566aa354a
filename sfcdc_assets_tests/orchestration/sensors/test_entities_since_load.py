"""An entity that has come since definitions loaded is named where a person looks, until they are loaded again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import dagster as dg
import pytest

from sfcdc_assets.cli import status as status_command
from sfcdc_assets.lake.store.entities_without_asset import note_without_asset, without_asset
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets.front_doors import WITHOUT_ASSET_TAG
from sfcdc_assets.orchestration.sensors.entities_since_load import with_entities_since_load
from sfcdc_assets.orchestration.sensors.open_channel import LastLook, OpenChannel
from sfcdc_assets.settings.given_settings import settings_of
from sfcdc_assets.status.status import status_of

CHANNEL = "/data/ChangeEvents"
LOADED = ("Account",)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def opened(warehouse: Warehouse, *entities: str) -> OpenChannel:
    last_look = LastLook(entities=entities)
    return cast(OpenChannel, SimpleNamespace(last_look=last_look, warehouse=warehouse, channel=CHANNEL))


def test_a_tick_that_asks_for_runs_names_it_in_a_tag_of_each(warehouse: Warehouse) -> None:
    asked = dg.SensorResult(run_requests=[dg.RunRequest(job_name="salesforce_sync", tags={"a": "b"})])
    (request,) = with_entities_since_load(opened(warehouse, "Account", "Lead"), LOADED, asked).run_requests or ()
    assert (request.job_name, request.tags) == ("salesforce_sync", {"a": "b", WITHOUT_ASSET_TAG: "Lead"})


def test_a_tick_that_asks_for_none_names_it_and_what_gives_it_its_asset(warehouse: Warehouse) -> None:
    names = ("Account", *(f"E{number}" for number in range(7)))
    result = with_entities_since_load(opened(warehouse, *names), LOADED, dg.SensorResult(skip_reason="All done."))
    assert isinstance(result.skip_reason, dg.SkipReason)
    assert str(result.skip_reason.skip_message).startswith("All done. E0, E1, E2, E3, E4 and 2 more have no assets of")
    assert "Reload" in str(result.skip_reason.skip_message)


def test_status_names_it_until_a_code_server_has_loaded_its_asset(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_of({"warehouse": warehouse.root})
    before = opened(warehouse, "Account", "Lead")
    with_entities_since_load(before, LOADED, dg.SensorResult(skip_reason="."))
    assert status_of(warehouse, settings).without_asset == ("Lead",)
    status_command.show(status_of(warehouse, settings))
    assert "Lead has no asset of its own in Dagster yet" in " ".join(capsys.readouterr().out.split())
    reloaded = opened(warehouse, "Account", "Lead")
    as_it_is = dg.SensorResult(skip_reason=".")
    assert with_entities_since_load(reloaded, ("Account", "Lead"), as_it_is) is as_it_is
    assert status_of(warehouse, settings).without_asset == ()


def test_a_note_that_nobody_can_read_says_nothing(warehouse: Warehouse) -> None:
    note_without_asset(warehouse, CHANNEL, ["Lead"])
    (path,) = warehouse.folder.glob("channels_read/without_asset-*.json")
    path.write_text("{")
    assert without_asset(warehouse, [CHANNEL]) == ()
