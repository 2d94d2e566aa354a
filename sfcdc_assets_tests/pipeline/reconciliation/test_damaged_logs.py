"""A table whose log nobody can read: its entity is marked, and the others are applied, cut and asked as ever."""

from __future__ import annotations

import json
import shutil

import pytest

from sfcdc_assets.apply.record_cut import DAMAGED
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.payload_retention import droppable
from sfcdc_assets.orchestration.checks.evaluations import evaluations
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.apply.test_lagging_entity import change, names, newest
from sfcdc_assets_tests.pipeline.broken_log import break_log
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

pytestmark = pytest.mark.slow

LAYERS = ("snapshot", "text_fields", "gap_reconciliation", "history", "current_state")


@pytest.mark.parametrize("layer", LAYERS)
def test_an_entity_with_a_broken_log_is_in_new_cuts_as_of_its_last_good_one_and_stops_no_other(
    synced: EmulatedPipeline, layer: str
) -> None:
    synced.sync()  # the first cut was noted before the stream had answered
    change(synced, "good")
    synced.sync()
    before = newest(synced)
    assert not before.lagging
    break_log(synced.warehouse, f"{layer}/Contact")
    for name in ("first", "second"):
        change(synced, name)
        with pytest.raises(SfcdcError, match=rf"Table {layer}/Contact is damaged: .*`sfcdc rebuild "):
            synced.sync()
        clock.sleep(1_200)
    cut = newest(synced)
    assert cut.position > before.position
    assert [(each.entity, each.position, each.reason) for each in cut.lagging] == [
        ("Contact", before.position, DAMAGED)
    ]
    assert cut.tables_of("Contact") == before.tables_of("Contact")
    assert "second" in names('SELECT "Name" FROM account')
    assert names("SELECT count(*) FROM account", "--strict")
    strict = sfcdc("sql", "--strict", "SELECT count(*) FROM contact")
    assert (strict.exit_code, strict.stdout) == (1, "")
    if layer == "snapshot":
        assert "good" in names('SELECT "LastName" FROM contact'), "all that a cut names is there, as of then"
    else:
        asked = sfcdc("sql", "SELECT count(*) FROM contact")
        assert asked.exit_code == 1
        assert f"Table {layer}/Contact is damaged" in asked.stderr
    found = {each.check_name: each for each in evaluations(ASSETS, Warehouse(str(synced.warehouse)), load_settings())}
    assert not found["stands_at_the_cut"].passed
    assert found["stands_at_the_cut"].metadata["entities"].value == "Contact"
    assert not [each for each in found.values() if "not_evaluated" in each.metadata]

    of_the_org = layer in ("snapshot", "gap_reconciliation")
    command = "rebuild --from-org --entity Contact" if of_the_org else "rebuild --entity Contact"
    if layer == "gap_reconciliation":
        shutil.rmtree(synced.warehouse / layer / "Contact")
    mended = sfcdc(*command.split())
    assert mended.exit_code == 0, mended.stderr
    synced.sync()
    synced.assert_equal_to_the_org()
    assert not newest(synced).lagging
    assert json.loads(sfcdc("status", "--json").stdout)["damaged"] == []


def test_damage_fails_one_run_by_its_entity_and_the_next_ones_only_where_others_have_work(
    synced: EmulatedPipeline,
) -> None:
    synced.quick_tick()
    break_log(synced.warehouse, "history/Contact")
    clock.sleep(60)  # the tables are looked at twice a minute
    with pytest.raises(RunFailed, match=r"Failed: Contact: Table history/Contact is damaged") as first:
        synced.quick_tick()
    assert first.value.is_of_entities
    for _ in range(3):
        clock.sleep(60)
        outcome = synced.quick_tick()
        assert outcome.jobs == ()
        assert "Table history/Contact is damaged" in outcome.said
    change(synced, "while it is damaged")
    with pytest.raises(RunFailed, match="Contact"):
        synced.tick()
    synced.assert_equal_to_the_org(["Account"])
    ended = sfcdc("sync")
    assert ended.exit_code == 1
    assert ended.stderr.count("Table history/Contact is damaged") == 1


@pytest.mark.parametrize("layer", ["snapshot", "current_state", "gap_reconciliation"])
def test_payloads_of_a_damaged_entity_stay_and_those_of_the_others_expire(synced: EmulatedPipeline, layer: str) -> None:
    change(synced, "old")
    synced.sync()
    warehouse = Warehouse(str(synced.warehouse))
    for entity in ("Account", "Contact"):
        assert synced.launch("snapshot", entity).success
    synced.sync()
    clock.sleep(5 * 86_400)
    assert [entity for entity, _ in droppable(warehouse, 3, clock.now_ms())] == ["Account", "Contact"]
    break_log(synced.warehouse, f"{layer}/Contact")
    assert [entity for entity, _ in droppable(warehouse, 3, clock.now_ms())] == ["Account"]
