"""`sfcdc dev` as a person meets it: runs by themselves, what the browser shows, and a clean end.

`SCREENSHOTS=1 python -m pytest sfcdc_assets_tests/ui` writes the pictures of the README and the docs to docs/images.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Page, expect

from sfcdc_assets_tests.ui.browser import SCREENSHOTS, image, opened_page, without_browser
from sfcdc_assets_tests.ui.dagster_server import DagsterServer

pytestmark = pytest.mark.slow

FEW = ["Account", "Contact"]
ALL = ["Account", "Case", "Contact", "Invoice_Statement__c", "Lead", "Opportunity", "Task", "User"]
ENTITIES = ALL if SCREENSHOTS else FEW
LAYERS = ("raw_events", "snapshot", "text_fields", "gap_reconciliation", "current_state", "history")
PLOTTED = ("rows", "rows_changed", "lag_seconds", "suspect_records", "deliveries", "api_requests", "seconds")
SENSOR = "salesforce_poll_ChangeEvents"
MOST_LOOKS = 10
LINES_DRAWN = """name => {
    const found = document.evaluate(`//*[text()='${name}']/following::canvas[1]`, document, null, 9, null)
    const canvas = found.singleNodeValue
    if (!canvas || !canvas.width) return false
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
    let coloured = 0
    for (let i = 0; i < pixels.length; i += 4)
        coloured += pixels[i] < 130 && pixels[i + 1] < 130 && pixels[i + 2] > 180 && pixels[i + 3] > 200
    return coloured > 20
}"""
"""Whether the plot below a heading has a line, or points: axes and grid are grey."""
CHANGES: dict[str, dict[str, object]] = {
    "Account": {"Site": "changed"},
    "Contact": {"Department": "changed"},
    "User": {"Department": "changed"},
    "Invoice_Statement__c": {"Description__c": "changed"},
}


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
    """After the sensor's snapshot run and a sync run of a person, beside which the sensor asks for runs of its own."""
    server.succeeded("snapshot", 90)
    server.launch("sync")
    server.succeeded("sync", 180)
    return server


@pytest.fixture(scope="module")
def at_rest(synced: DagsterServer) -> DagsterServer:
    """After one more sync, with the sensor off: no run is at work, and none will be."""
    synced.come_to_rest(SENSOR)
    for entity in ENTITIES:
        synced.change(entity, CHANGES.get(entity, {"Description": "changed by a client"}))
    synced.ends("sync", "SUCCESS", 120)
    return synced


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with opened_page(tmp_path_factory.mktemp("chromium"), 1400, 900) as page:
        yield page


# -- while runs are at work


def test_ticks_add_the_entities_as_partitions_and_start_the_snapshot(synced: DagsterServer) -> None:
    assert sorted(synced.partition_keys("current_state")) == sorted(ENTITIES)
    assert "SUCCESS" in synced.tick_statuses(SENSOR)
    assert (synced.folder / "warehouse" / "current_state" / "Account" / "_delta_log").is_dir()


def is_filled(server: DagsterServer, asset: str) -> bool:
    """Whether each entity's partition was materialized: the sensor's run has some first, a person's the rest."""
    return bool(server.partition_counts(asset)["numMaterialized"] == len(ENTITIES))


@without_browser
def test_a_run_at_work_takes_no_partition_away_from_the_graph(synced: DagsterServer, page: Page) -> None:
    """A run that planned its partitions showed them as missing until it had materialized them: 0 % filled."""
    synced.wait(lambda: all(is_filled(synced, asset) for asset in LAYERS), 120, "all tables to be there once")
    for _ in range(MOST_LOOKS):
        run = synced.wait(lambda: synced.run_ids("sync", "STARTED"), 120, "a run of the sensor to be at work")[0]
        open_graph(synced, page)
        for asset in LAYERS:
            counts = synced.partition_counts(asset)
            assert counts == {"numMaterialized": len(ENTITIES), "numFailed": 0, "numMaterializing": 0}, asset
        expect(page.get_by_text("100% filled", exact=True)).to_have_count(len(LAYERS))
        expect(page.get_by_text(re.compile(r"[Mm]aterializing \d+"))).to_have_count(0)
        if run in synced.run_ids("sync", "STARTED"):
            return
    pytest.fail("no run was at work for as long as it took to look")


@without_browser
def test_the_ticks_of_the_sensor_are_listed_with_the_runs_they_asked_for(synced: DagsterServer, page: Page) -> None:
    """A run goes on for minutes, in which no tick asks for one: the page's filter finds those that did."""
    run = synced.wait(lambda: synced.runs_asked_for(SENSOR), 150, "a tick to ask for a run")[0]
    page.goto(f"{synced.url}/locations/sfcdc_assets/sensors/{SENSOR}?status=success")
    expect(page.get_by_text("1 run requested").first).to_be_visible()
    expect(page.get_by_text(run[:8]).first).to_be_visible()


# -- at rest


@without_browser
def test_the_graph_shows_the_layers_from_the_channel_to_the_tables(at_rest: DagsterServer, page: Page) -> None:
    open_graph(at_rest, page)
    for layer in ("ChangeEvents", *LAYERS, "consistent_cuts"):
        expect(page.get_by_text(layer, exact=True).first).to_be_visible()
    expect(page.get_by_text("100% filled", exact=True)).to_have_count(len(LAYERS))
    # The channel and the cuts, which are external, and each entity's own asset.
    expect(page.get_by_text("Materialized", exact=True)).to_have_count(2 + len(ENTITIES))
    expect(page.get_by_text(re.compile(r"6 / 6 Passed")).first).to_be_visible()
    picture(page, "asset-graph.png")


def test_nothing_is_under_way_failed_or_missing_when_no_run_is_at_work(at_rest: DagsterServer) -> None:
    for asset in LAYERS:
        counts = at_rest.partition_counts(asset)
        assert counts == {"numMaterialized": len(ENTITIES), "numFailed": 0, "numMaterializing": 0}, asset


@without_browser
def test_the_partitions_of_a_table_are_the_entities(at_rest: DagsterServer, page: Page) -> None:
    open_partition(at_rest, page, "current_state", "Account")
    for entity in ENTITIES:
        expect(page.get_by_text(entity, exact=True).first).to_be_visible()
    picture(page, "current-state.png")


@without_browser
def test_a_materialization_tells_rows_lag_columns_and_a_sample(at_rest: DagsterServer, page: Page) -> None:
    open_partition(at_rest, page, "current_state", "Account")
    for key in (*PLOTTED, "columns_reported_in", "to_position", "sample"):
        expect(page.get_by_text(key, exact=True).first).to_be_visible()
    sample = page.get_by_role("table").filter(has=page.get_by_role("columnheader", name="Id", exact=True))
    expect(sample.last.get_by_role("row")).to_have_count(11)  # the one before it is the page's, which it stands in
    page.keyboard.press("Escape")


def test_what_is_plotted_of_a_partition_has_a_number_for_each_materialization(at_rest: DagsterServer) -> None:
    figures = at_rest.figures("current_state", "Account")
    assert {name: len(figures.get(name, [])) for name in PLOTTED if name != "lag_seconds"} == dict.fromkeys(
        [name for name in PLOTTED if name != "lag_seconds"], len(figures["rows"])
    )
    assert len(figures["rows"]) > 1
    assert figures["lag_seconds"], "a batch without events has no lag; the others have"
    assert min(figures["lag_seconds"]) > 0
    assert max(figures["deliveries"]) > 0


@without_browser
def test_the_plots_of_a_table_are_not_empty(at_rest: DagsterServer, page: Page) -> None:
    page.goto(f"{at_rest.url}/assets/salesforce/current_state?view=overview")
    page.get_by_role("button", name="Plots").click()
    for name in PLOTTED:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
        page.wait_for_function(LINES_DRAWN, arg=name)
    picture(page, "plots.png")


def test_the_lineage_of_columns_is_served(at_rest: DagsterServer) -> None:
    """By GraphQL: the pages of the open-source Dagster leave it out, those of Dagster+ draw it."""
    sources = at_rest.sources_of_columns("account")
    assert sources["BillingCity"] == ["ChangeEvents.Account.BillingCity", "snapshot.BillingCity"]
    assert sources["_commit_user"] == ["current_state._commit_user"]
    assert at_rest.sources_of_columns("current_state", "Account")["_commit_user"] == ["raw_events.commit_user"]


def test_the_steps_of_a_run_are_its_entities(at_rest: DagsterServer) -> None:
    (run, *_) = [each for each in at_rest.run_ids("sync", "SUCCESS") if "apply[Account]" in at_rest.steps(each)]
    steps = at_rest.steps(run)
    assert (steps[:2], steps[-2:]) == (["land", "prepare"], ["follow", "check"])


@without_browser
def test_the_checks_are_green_after_several_syncs(at_rest: DagsterServer, page: Page) -> None:
    assert len(at_rest.run_ids("sync", "SUCCESS")) > 1
    assert set(at_rest.checks("current_state").values()) == {True}, "evaluated for the newest materialization"
    page.goto(f"{at_rest.url}/assets/salesforce/current_state?view=checks")
    for check in at_rest.checks("current_state"):
        expect(page.get_by_text(check, exact=True).first).to_be_visible()
    expect(page.get_by_text("Passed").first).to_be_visible()
    expect(page.get_by_text("Not evaluated")).to_have_count(0)
    picture(page, "checks.png")


# -- an entity that fails


@without_browser
def test_an_entity_that_fails_is_red_alone_until_it_is_mended(at_rest: DagsterServer, page: Page) -> None:
    with at_rest.hidden_rows("Contact"):
        for entity in FEW:
            at_rest.change(entity, {next(iter(CHANGES[entity])): "changed while the rows of Contact were gone"})
        run = at_rest.ends("sync", "FAILURE", 120)
        assert "apply[Account]" in at_rest.steps(run)
        counts = at_rest.partition_counts("current_state")
        assert counts == {"numMaterialized": len(ENTITIES) - 1, "numFailed": 1, "numMaterializing": 0}
        open_partition(at_rest, page, "current_state", "Contact")
        expect(page.get_by_text("Failed (1)", exact=True)).to_be_visible()
        picture(page, "failed-entity.png")
        page.goto(f"{at_rest.url}/runs/{run}")
        expect(page.get_by_text("apply[Contact]").first).to_be_visible()
        picture(page, "failed-run.png")
    at_rest.ends("sync", "SUCCESS", 120)
    assert at_rest.partition_counts("current_state")["numFailed"] == 0
    open_partition(at_rest, page, "current_state", "Contact")
    expect(page.get_by_text("Failed (0)", exact=True)).to_be_visible()
    assert set(at_rest.checks("current_state").values()) == {True}


def test_an_interruption_ends_dagster_and_everything_it_started(synced: DagsterServer) -> None:
    assert synced.left(), "the check itself must see them while they live"
    assert synced.stop() == 0
    assert synced.left() == []


def open_graph(server: DagsterServer, page: Page) -> None:
    page.set_viewport_size({"width": 1700, "height": 1360})  # so that all of it is shown with its details
    page.goto(f"{server.url}/asset-groups")
    hide_all_but_the_graph(page)
    expect(page.get_by_text("salesforce_tables", exact=True).first).to_be_visible()
    table = page.get_by_text("current_state", exact=True).first
    try:
        expect(table).to_be_visible(timeout=3_000)  # the browser remembers groups that were expanded
    except AssertionError:
        page.keyboard.press("Alt+E")  # expand all groups
    expect(table).to_be_visible()
    for _ in range(3):  # where all of it fits in without its details, nearer
        try:
            expect(page.get_by_text("100% filled", exact=True).first).to_be_visible(timeout=5_000)
            return
        except AssertionError:
            page.get_by_role("button", name="zoom_in").click()


def hide_all_but_the_graph(page: Page) -> None:
    """Navigation and the list of groups. The browser remembers that they are hidden."""
    groups = page.locator("input[placeholder='Jump to…']")
    for shown, button in (
        (page.get_by_text("Hide navigation"), page.get_by_text("Hide navigation")),
        (groups, groups.locator("xpath=following::button[1]")),
    ):
        with suppress(AssertionError):
            expect(shown).to_be_visible(timeout=3_000)
            button.click()


def open_partition(server: DagsterServer, page: Page, asset: str, entity: str) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(f"{server.url}/assets/salesforce/{asset}?view=partitions&partition={entity}")
    expect(page.get_by_text(entity, exact=True).first).to_be_visible()


def picture(page: Page, name: str) -> None:
    """Write it, if it was asked for, when the page has not changed for three seconds."""
    if not SCREENSHOTS:
        return
    before, same = page.screenshot(), 0
    for _ in range(60):
        page.wait_for_timeout(500)
        now = page.screenshot()
        same = same + 1 if now == before else 0
        if same == 6:
            break
        before = now
    page.screenshot(path=image(name))
