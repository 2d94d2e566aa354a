"""One entity that fails, or that nobody can read, is in the cuts as of its own last batch; the others go on."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.apply.record_cut import AHEAD, NOT_APPLIED, NOT_COPIED
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.lake.tables.consistent_cuts import Cut, latest_cut
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.checks.lagging import checked
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids

pytestmark = pytest.mark.slow


def newest(pipeline: EmulatedPipeline) -> Cut:
    cut = latest_cut(Warehouse(str(pipeline.warehouse)), CHANNEL)
    assert cut is not None
    return cut


def lagging_check(pipeline: EmulatedPipeline) -> str:
    """The entities for which the check fails."""
    result = checked(Warehouse(str(pipeline.warehouse)), load_settings())
    assert result.passed == (result.metadata["entities"].value == "none")
    return str(result.metadata["entities"].value)


def failing_sync(pipeline: EmulatedPipeline) -> None:
    with pytest.raises(RunFailed, match="Contact"):
        pipeline.sync()


def change(pipeline: EmulatedPipeline, name: str) -> None:
    """One transaction over both objects."""
    with pipeline.org.transaction() as both:
        both.update("Account", ids(pipeline.org, "Account")[0], {"Name": name})
        both.update("Contact", ids(pipeline.org, "Contact")[0], {"LastName": name})


def names(query: str, *options: str) -> list[Any]:
    answered = sfcdc("sql", "--json", *options, query)
    assert answered.exit_code == 0, answered.stderr
    return [next(iter(row.values())) for row in json.loads(answered.stdout)]


@pytest.fixture
def contact_fails(synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """While it is not empty, no batch of Contact can be committed."""
    fails = [True]
    commit = DeltaTable.create_write_transaction

    def refused(table: DeltaTable, *arguments: object, **options: object) -> object:
        if fails and table.table_uri.rstrip("/").endswith("current_state/Contact"):
            raise ValueError("one of those values")
        return commit(table, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", refused)
    return fails


def test_an_entity_that_cannot_be_applied_lags_and_the_others_get_new_cuts(
    synced: EmulatedPipeline, contact_fails: list[bool]
) -> None:
    synced.sync()  # the first cut was noted before the stream had answered
    before = newest(synced)
    assert not before.lagging
    change(synced, "first")
    failing_sync(synced)
    cut = newest(synced)
    assert cut.position > before.position
    (lagging,) = cut.lagging
    assert (lagging.entity, lagging.reason) == ("Contact", NOT_APPLIED)
    assert lagging.position is not None
    assert lagging.position < cut.position
    assert cut.tables_of("Contact")["current_state/Contact"] <= synced.table("current_state/Contact").version()
    assert "first" in names('SELECT "Name" FROM account')
    assert "first" not in names('SELECT "LastName" FROM contact')

    assert lagging_check(synced) == "none"
    clock.sleep(1_200)
    assert lagging_check(synced) == "Contact"
    change(synced, "second")
    failing_sync(synced)
    (still,) = newest(synced).lagging
    assert still.since == lagging.since, "it lags since then"
    assert "second" in names('SELECT "Name" FROM account')

    contact_fails.clear()
    clock.sleep(60)
    synced.sync()
    assert not newest(synced).lagging
    assert lagging_check(synced) == "none"
    assert "second" in names('SELECT "LastName" FROM contact')


def test_sql_says_which_of_the_entities_asked_for_lag_and_strict_refuses_them(
    synced: EmulatedPipeline, contact_fails: list[bool]
) -> None:
    assert contact_fails
    change(synced, "first")
    failing_sync(synced)
    silent = sfcdc("sql", "SELECT count(*) FROM account")
    assert "lags" not in silent.stderr
    both = sfcdc("sql", 'SELECT count(*) FROM account a JOIN contact c ON c."AccountId" = a."Id"')
    assert both.exit_code == 0
    assert f"Contact lags since {newest(synced).lagging[0].since:%Y-%m-%d %H:%M:%S} UTC ({NOT_APPLIED})" in both.stderr
    assert names("SELECT entity FROM sfcdc_lagging") == ["Contact"]
    strict = sfcdc("sql", "--strict", "SELECT count(*) FROM contact")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert "Contact lags" in strict.stderr
    assert names("SELECT count(*) FROM account", "--strict")
    shown = json.loads(sfcdc("cut", "--json").stdout)
    assert [each["entity"] for each in shown["lagging"]] == ["Contact"]
    assert datetime.fromisoformat(shown["lagging"][0]["since"])
    refused = sfcdc("cut", "--strict")
    assert refused.exit_code == 1
    assert "Contact lags" in refused.stderr


def test_an_object_that_was_never_copied_keeps_no_cut_from_the_others(synced: EmulatedPipeline) -> None:
    synced.org.selected_entities = ["Account", "Contact", "Task"]
    synced.org.hidden_objects.add("Task")
    change(synced, "first")
    with synced.org.transaction() as several:
        several.create("Task", {"Subject": "not readable"})
    synced.sync()
    cut = newest(synced)
    assert [(each.entity, each.position, each.reason) for each in cut.lagging] == [("Task", None, NOT_COPIED)]
    assert "first" in names('SELECT "Name" FROM account')
    missing = sfcdc("sql", "SELECT count(*) FROM task")
    assert missing.exit_code == 1
    assert "Task lags" in missing.stderr
    synced.org.hidden_objects.clear()
    for _ in range(3):  # it is read once more when the stream follows the rights that it was given
        clock.sleep(3_600)
        synced.sync()
    assert not newest(synced).lagging
    assert names("SELECT count(*) FROM task") == [len(ids(synced.org, "Task"))]


def test_without_failures_no_cut_but_an_unproven_first_one_has_an_entity_that_lags(synced: EmulatedPipeline) -> None:
    for number in range(3):
        change(synced, f"round {number}")
        synced.sync()
        clock.sleep(600)
    rows = sorted(synced.scan("consistent_cuts"), key=lambda row: row["applied_at"])
    assert not any(row["lagging"] for row in rows[1:])
    assert {each["reason"] for each in rows[0]["lagging"]} == {AHEAD}
