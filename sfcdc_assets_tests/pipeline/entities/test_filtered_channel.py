"""A channel whose member has a filter: what changes outside it raises no event, is named, and found by the audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import dagster as dg
import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.lake.tables.channel_members import filters_of
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.stepwise import Copy, connected

SALES = "/data/Sales__chn"
HOT = "Rating = 'Hot'"


@pytest.fixture
def filtered(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> Iterator[Copy]:
    """A table that equals the org, fed by a channel that has the events of hot accounts only."""
    monkeypatch.setenv("COLUMNS", "200")
    pipeline = make_pipeline("Account", records=12)
    monkeypatch.setenv("SFCDC_CHANNELS", SALES)
    pipeline.org.channels.create("Sales__chn")
    pipeline.org.channels.add_member("Sales__chn", "Account", filter_expression=HOT)
    with connected(pipeline, SALES) as copy:
        assert entity_channels(copy.warehouse, load_settings().channels, (), copy.org.members) == {"Account": SALES}
        copy.snapshot()
        copy.catch_up()
        # As every look does; the one before came before the warehouse was the org's.
        entity_channels(copy.warehouse, load_settings().channels, (), copy.org.members)
        yield copy


def audit_filtered() -> object:
    """What the schedule of the night asks for."""
    return defs.resolve_schedule_def(ASSETS.name("audit_filtered_every_night"))(dg.build_schedule_context())


def status() -> str:
    return CliRunner().invoke(app, ["status"]).stdout


def test_what_changes_outside_the_filter_is_found_and_healed_by_the_audit(filtered: Copy) -> None:
    key_ranges, outside, deleted, enters = ids(filtered.emulated, "Account")[:4]
    changes = (
        (key_ranges, {"Rating": "Hot"}),
        (key_ranges, {"Rating": "Cold", "Site": "left the filter"}),
        (outside, {"Rating": "Warm", "Site": "never in it"}),
        (enters, {"Rating": "Hot", "Site": "entered it"}),
    )
    for record_id, values in changes:
        with filtered.emulated.transaction() as one:
            one.update("Account", record_id, values)
    with filtered.emulated.transaction() as one:
        one.update("Account", deleted, {"Rating": "Cold"})
        one.delete("Account", deleted)
    filtered.catch_up()
    rows = filtered.pipeline.rows("Account")
    assert (rows[enters]["Site"], rows[key_ranges]["Rating"]) == ("entered it", "Hot")
    assert rows[outside]["Site"] != "never in it"
    report = filtered.audit()
    assert {found.record_id for found in report.differences} == {key_ranges, outside, deleted}
    filtered.catch_up()
    assert filtered.audit().differences == []
    assert filtered.pipeline.rows("Account")[deleted]["_is_deleted"]
    filtered.pipeline.assert_equal_to_the_org(["Account"])


def test_status_says_it_without_asking_the_org_and_when_the_table_was_audited(filtered: Copy) -> None:
    filtered.pipeline.server.stop()
    assert f"Account: {SALES} filters its events ({HOT})" in status()
    assert "found by the audit only, never audited." in status()


def test_status_says_when_it_was_audited(filtered: Copy) -> None:
    filtered.audit()
    assert "found by the audit only, last audited 20" in status()


def test_a_filter_that_is_taken_away_is_forgotten(filtered: Copy) -> None:
    (member,) = [each for each in filtered.emulated.channels.members() if each.channel == "Sales__chn"]
    filtered.emulated.channels.filter_events(member.id, None)
    assert filters_of(filtered.warehouse, SALES) == {"Account": HOT}
    entity_channels(filtered.warehouse, [SALES], (), filtered.org.members)
    assert filters_of(filtered.warehouse, SALES) == {}
    assert "filters its events" not in status()


def test_the_schedule_of_the_night_audits_filtered_entities_and_no_other(filtered: Copy) -> None:
    request = audit_filtered()
    assert isinstance(request, dg.RunRequest)
    (config,) = request.run_config["ops"].values()
    assert config == {"config": {"entities": ["Account"]}}
    run = filtered.pipeline.launch("audit", run_config=request.run_config)
    assert run.success, filtered.pipeline.failure(run)
    assert "last audited 20" in status()


def test_without_a_filter_the_schedule_does_nothing(make_pipeline: Callable[..., EmulatedPipeline]) -> None:
    make_pipeline("Account", records=1)
    assert isinstance(audit_filtered(), dg.SkipReason)
