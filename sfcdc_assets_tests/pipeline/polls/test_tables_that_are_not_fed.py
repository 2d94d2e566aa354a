"""An entity that the settings do not take any more keeps its tables, and nobody says that they are up to date."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.checks.evaluations import CHECKED
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import in_one_line, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.polls.polled_org import OBJECTS, rename

pytestmark = pytest.mark.slow


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


def asked(statement: str) -> tuple[list[dict[str, Any]], str]:
    """The rows, and what is said beside them."""
    found = sfcdc("sql", "--json", statement)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout), found.stderr


def go_on(org: EmulatedPipeline, text: str) -> None:
    """Something of each object changes, and what is polled is due."""
    for entity in OBJECTS:
        rename(org, entity, 2, text)
    org.org.clock.sleep(4000)


def test_what_nothing_feeds_any_more_can_be_asked_for_and_goes_on_when_it_is_fed_again(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.sync()
    leads = """SELECT "Id", "Description" FROM lead ORDER BY "Id\""""
    kept, said = asked(leads)
    assert said == ""
    monkeypatch.setenv("SFCDC_POLL", "Case")
    for text in ("first", "second"):
        go_on(org, f"{text}, while nobody asked")
        org.sync()
        found, said = asked(leads)
        assert found == kept
        assert "Lead lags since" in said
        assert "nothing feeds it by the settings of who noted the cut" in said
    assert asked("""SELECT DISTINCT "Description" FROM "case" WHERE "Description" LIKE '%while%'""")[1] == ""
    assert CHECKED["stands_at_the_cut"](Warehouse(str(org.warehouse)), load_settings()).passed
    assert sfcdc("cut", "--channel", POLLED, "--strict").exit_code == 0
    assert sfcdc("sql", "--strict", leads).exit_code == 1
    monkeypatch.setenv("SFCDC_POLL", ",".join(OBJECTS))
    org.sync()
    assert sfcdc("verify", "--entity", "Lead").exit_code == 0
    found, said = asked(leads)
    assert (sum(row["Description"] == "second, while nobody asked" for row in found), said) == (2, "")


def test_a_sync_of_some_entities_takes_no_other_out_of_the_cut(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.sync()
    monkeypatch.setenv("SFCDC_ENTITIES", "Case")
    go_on(org, "a sync of cases alone")
    org.sync()
    monkeypatch.delenv("SFCDC_ENTITIES")
    assert asked("SELECT count(*) AS n FROM lead")[0] == [{"n": 6}]
    org.sync()
    found, said = asked("""SELECT count(*) AS n FROM lead WHERE "Description" = 'a sync of cases alone'""")
    assert (found, said) == ([{"n": 2}], "")


def test_what_is_not_fed_can_be_rebuilt_and_removed(org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    org.sync()
    monkeypatch.setenv("SFCDC_POLL", "Case,Opportunity")
    assert sfcdc("rebuild", "--entity", "Lead").exit_code == 0
    go_on(org, "after the rebuild")
    org.sync()
    assert asked("SELECT count(*) AS n FROM lead")[0] == [{"n": 6}]
    for layer in ("current_state", "history", "text_fields", "gap_reconciliation", "snapshot"):
        shutil.rmtree(org.warehouse / layer / "Lead", ignore_errors=True)
    go_on(org, "after the removal")
    org.sync()
    assert "lead" not in {row["name"] for row in asked("SHOW TABLES")[0]}
    assert sfcdc("cut", "--channel", POLLED).exit_code == 0
