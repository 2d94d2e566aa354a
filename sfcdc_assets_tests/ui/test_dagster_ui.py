"""`sfcdc dev` as a person meets it: runs by themselves, what the browser shows, and a clean end.

`SCREENSHOTS=1 python -m pytest sfcdc_assets_tests/ui` writes the pictures of the README to docs/images.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from sfcdc_assets_tests.ui.browser import PATIENCE_MS, SCREENSHOTS, image, opened_page, without_browser
from sfcdc_assets_tests.ui.dagster_server import DagsterServer

FEW = ["Account", "Contact"]
ALL = ["Account", "Case", "Contact", "Invoice_Statement__c", "Lead", "Opportunity", "Task", "User"]
ENTITIES = ALL if SCREENSHOTS else FEW


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterServer]:
    server = DagsterServer(tmp_path_factory.mktemp("dev"), ENTITIES, records=2000 if SCREENSHOTS else 60)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture(scope="module")
def synced(server: DagsterServer) -> DagsterServer:
    """After the sensor's snapshot run and a sync run of a person, beside which the sensor asks for one of its own."""
    server.succeeded("snapshot", 90)
    server.launch("sync")
    server.succeeded("sync", 180)
    if SCREENSHOTS:  # of a quiet moment, after the sensor's own run has brought changes
        server.wait(lambda: len(server.run_ids("sync", "SUCCESS")) > 1, 120, "the sensor's own sync run")
        server.switch_off("poll_ChangeEvents")
        unfinished = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED")
        server.wait(lambda: not any(server.run_ids("sync", each) for each in unfinished), 120, "all runs to end")
    return server


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with opened_page(tmp_path_factory.mktemp("chromium"), 1400, 900) as page:
        yield page


def test_ticks_add_the_entities_as_partitions_and_start_the_snapshot(synced: DagsterServer) -> None:
    assert sorted(synced.partition_keys("current_state")) == sorted(ENTITIES)
    assert "SUCCESS" in synced.tick_statuses("poll_ChangeEvents")
    assert (synced.folder / "warehouse" / "current_state" / "Account" / "_delta_log").is_dir()


@without_browser
def test_the_graph_shows_the_layers_from_the_channel_to_the_tables(synced: DagsterServer, page: Page) -> None:
    page.goto(f"{synced.url}/asset-groups")
    expect(page.get_by_text("tables", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
    page.keyboard.press("Alt+E")  # expand all groups
    for layer in ("ChangeEvents", "raw_events", "snapshot", "current_state"):
        expect(page.get_by_text(layer, exact=True).first).to_be_visible(timeout=PATIENCE_MS)
    if SCREENSHOTS:
        page.get_by_text("Hide navigation").click()
        page.locator("input[placeholder='Jump to…']").locator(
            "xpath=following::button[1]"
        ).click()  # the list of groups
        page.keyboard.press("Alt+E")
        page.keyboard.press("Alt+E")
        settle(page)
        page.screenshot(path=image("asset-graph.png"))


@without_browser
def test_the_partitions_of_a_table_are_the_entities(synced: DagsterServer, page: Page) -> None:
    page.goto(f"{synced.url}/assets/salesforce/current_state?view=partitions&partition=Account")
    for entity in ENTITIES:
        expect(page.get_by_text(entity, exact=True).first).to_be_visible(timeout=PATIENCE_MS)
    if SCREENSHOTS:
        settle(page)
        page.screenshot(path=image("current-state.png"))


@without_browser
def test_a_materialization_tells_rows_lag_columns_and_a_sample(synced: DagsterServer, page: Page) -> None:
    page.goto(f"{synced.url}/assets/salesforce/current_state?view=partitions&partition=Account")
    for key in ("rows", "rows_changed", "suspect_records", "dagster/column_schema", "to_position", "sample"):
        expect(page.get_by_text(key, exact=True).first).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_text("[Show Table Schema]").click()
    expect(page.get_by_text("BillingCity", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    page.get_by_text("[Show Markdown]").click()
    expect(page.get_by_role("columnheader", name="Id", exact=True)).to_be_visible(timeout=PATIENCE_MS)


def test_the_lineage_of_columns_is_served(synced: DagsterServer) -> None:
    """By GraphQL: the pages of the open-source Dagster leave it out, those of Dagster+ draw it."""
    sources = synced.sources_of_columns("current_state")
    assert sources["BillingCity"] == ["raw_events.payload", "snapshot.BillingCity"]
    assert sources["_commit_user"] == ["raw_events.commit_user"]


def test_nothing_is_under_way_or_failed_when_no_run_is_at_work(synced: DagsterServer) -> None:
    for asset in ("snapshot", "current_state", "history"):
        counts = synced.partition_counts(asset)
        assert counts == {"numMaterialized": len(ENTITIES), "numFailed": 0, "numMaterializing": 0}


def test_the_checks_are_evaluated_for_the_newest_materialization(synced: DagsterServer) -> None:
    checks = synced.checks("current_state")
    assert set(checks.values()) == {True}, checks


def test_the_steps_of_a_run_are_its_entities(synced: DagsterServer) -> None:
    (run, *_) = [each for each in synced.run_ids("sync", "SUCCESS") if "apply[Account]" in synced.steps(each)]
    steps = synced.steps(run)
    assert (steps[:2], steps[-2:]) == (["land", "prepare"], ["follow", "check"])


@without_browser
def test_the_checks_of_a_table_are_listed(synced: DagsterServer, page: Page) -> None:
    page.goto(f"{synced.url}/assets/salesforce/current_state?view=checks")
    for check in ("equals_the_org", "is_fresh", "schema_follows_the_org"):
        expect(page.get_by_text(check, exact=True).first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Passed").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Not evaluated")).to_have_count(0)
    if SCREENSHOTS:
        settle(page)
        page.screenshot(path=image("checks.png"))


@without_browser
def test_the_ticks_of_the_sensor_are_listed_with_the_runs_they_asked_for(synced: DagsterServer, page: Page) -> None:
    page.goto(f"{synced.url}/locations/sfcdc_assets/sensors/poll_ChangeEvents")
    expect(page.get_by_text("1 run requested").first).to_be_visible(timeout=PATIENCE_MS)
    run = synced.run_ids("snapshot", "SUCCESS")[0]
    expect(page.get_by_text(run[:8]).first).to_be_visible(timeout=PATIENCE_MS)


def test_an_interruption_ends_dagster_and_everything_it_started(synced: DagsterServer) -> None:
    assert synced.left(), "the check itself must see them while they live"
    assert synced.stop() == 0
    assert synced.left() == []


def settle(page: Page) -> None:
    """Until the picture has not changed for three seconds."""
    before, same = page.screenshot(), 0
    for _ in range(60):
        page.wait_for_timeout(500)
        now = page.screenshot()
        same = same + 1 if now == before else 0
        if same == 6:
            return
        before = now
