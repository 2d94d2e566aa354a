"""An entity that the settings do not take any more keeps its tables, and nobody says that they are up to date."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sfcdc_assets_tests.cli.command import in_one_line, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.polls.polled_org import OBJECTS


def of_objects() -> dict[str, dict[str, Any]]:
    found = json.loads(sfcdc("status", "--json").stdout)["entities"]
    return {each["entity"]: each for each in found if each["entity"] in OBJECTS}


NOBODY = "no channel of SFCDC_CHANNELS carries it, and SFCDC_POLL does not name it"


@pytest.mark.parametrize(
    ("changed", "not_fed", "why"),
    [
        ({"SFCDC_POLL": "Case,Oppo*"}, ["Lead"], NOBODY),
        ({"SFCDC_POLL": "", "SFCDC_CHANNELS": "/data/ChangeEvents"}, ["Case", "Lead", "Opportunity"], NOBODY),
        ({"SFCDC_POLL_EXCLUDE": "L*"}, ["Lead"], "SFCDC_POLL_EXCLUDE names it"),
        ({"SFCDC_ENTITIES": "Case"}, ["Lead", "Opportunity"], "SFCDC_ENTITIES does not name it"),
    ],
)
def test_what_the_settings_do_not_take_any_more_is_not_said_to_be_up_to_date(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], not_fed: list[str], why: str
) -> None:
    if "SFCDC_CHANNELS" in changed:
        monkeypatch.setenv("SFCDC_CHANNELS", changed["SFCDC_CHANNELS"])  # one that was never read may carry any object
        org.sync()
        monkeypatch.setenv("SFCDC_CHANNELS", "none")
    org.sync()
    assert {(each["up_to_date"], each["not_fed"]) for each in of_objects().values()} == {(True, None)}
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    found = of_objects()
    assert {name: each["not_fed"] for name, each in found.items() if each["not_fed"]} == dict.fromkeys(not_fed, why)
    assert [name for name, each in found.items() if not each["up_to_date"]] == not_fed
    shown = sfcdc("status")
    said = (
        "is not fed by these settings, and its tables stay"
        if len(not_fed) == 1
        else "are not fed by these settings, and their tables stay"
    )
    assert f"{', '.join(not_fed)} {said} as they are: {why}." in in_one_line(shown)
    assert "not built yet" not in shown.stdout
