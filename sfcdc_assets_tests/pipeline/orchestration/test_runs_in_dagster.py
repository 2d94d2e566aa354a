"""What Dagster shows of runs: steps a person can read, nothing planned that is not done, failures where they belong."""

from __future__ import annotations

from typing import Any, cast

import dagster as dg
import pytest
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    CachingStaleStatusResolver,
    StaleStatus,
)
from dagster._core.loader import LoadingContextForTest
from deltalake import DeltaTable

from sfcdc_assets import open_cut
from sfcdc_assets.apply.catch_up import CatchUp
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.orchestration.assets import specs
from sfcdc_assets.orchestration.assets.report_interval import EVERY_SECONDS
from sfcdc_assets.orchestration.jobs import retries
from sfcdc_assets.orchestration.jobs.sync_values import PreparedEntities, StepLanded
from sfcdc_assets.orchestration.run_scope import NotInMemory, RunScope
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import OrgUnavailable
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids

pytestmark = pytest.mark.slow

CHECKS = {spec.name for check in defs.asset_checks or () for spec in check.check_specs}
BOTH = ("Account", "Contact")


def change_both(pipeline: EmulatedPipeline, text: str) -> None:
    with pipeline.org.transaction() as both:
        both.update("Account", ids(pipeline.org, "Account")[0], {"Name": text})
        both.update("Contact", ids(pipeline.org, "Contact")[0], {"Title": text})


def events_of(pipeline: EmulatedPipeline, run_id: str, kind: dg.DagsterEventType) -> list[dg.DagsterEvent]:
    return [each.dagster_event for each in pipeline.instance.all_logs(run_id, of_type=kind) if each.dagster_event]


def materializations(pipeline: EmulatedPipeline, key: dg.AssetKey, entity: str) -> list[dg.AssetMaterialization]:
    """Oldest first."""
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[entity])
    records = pipeline.instance.fetch_materializations(wanted, limit=100, ascending=True).records
    return [record.asset_materialization for record in records if record.asset_materialization]


def metadata(pipeline: EmulatedPipeline, key: dg.AssetKey, entity: str) -> dict[str, Any]:
    return {name: value.value for name, value in materializations(pipeline, key, entity)[-1].metadata.items()}


def evaluated_in(pipeline: EmulatedPipeline) -> dict[str, tuple[bool, str]]:
    """Check -> whether it passed last, and in which run."""
    found = {}
    for name in CHECKS:
        key = dg.AssetCheckKey(ASSETS.keys.current_state, name)
        records = pipeline.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        for record in records:
            assert record.evaluation is not None
            found[name] = (record.evaluation.passed, record.run_id)
    return found


@pytest.fixture
def contact_fails(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Commits to Contact's table fail as long as the list has something."""
    fails = [True]
    original = DeltaTable.create_write_transaction

    def committing(table: DeltaTable, *arguments: object, **options: object) -> object:
        if fails and table.table_uri.rstrip("/").endswith("current_state/Contact"):
            raise OSError("no space left on device")
        return original(table, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", committing)
    return fails


def test_a_run_has_a_step_for_each_entity_with_work_and_plans_nothing_that_it_does_not_do(
    synced: EmulatedPipeline,
) -> None:
    synced.sync()  # of both objects, what is in the cut is reported
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "alone"})
    synced.settled_tick()
    run = synced.last_run()
    steps = [event.step_key for event in events_of(synced, run, dg.DagsterEventType.STEP_SUCCESS)]
    assert steps == ["land", "prepare", "apply[Account]", "cut", "follow", "check"]
    assert events_of(synced, run, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED) == []
    materialized = {
        (event.asset_key.path[-1], event.partition)
        for event in events_of(synced, run, dg.DagsterEventType.ASSET_MATERIALIZATION)
        if event.asset_key
    }
    assert materialized == {(key.path[-1], "Account") for key in ASSETS.keys.of_tables} | {
        ("consistent_cuts", None),
        ("ChangeEvents", None),
        ("account", None),
    }
    record = synced.instance.get_run_by_id(run)
    assert record is not None
    assert not [tag for tag in record.tags if "trigger" in tag or "partition" in tag]


def keys_reported(pipeline: EmulatedPipeline) -> list[str]:
    """By the last run, in order."""
    reported = events_of(pipeline, pipeline.last_run(), dg.DagsterEventType.ASSET_MATERIALIZATION)
    return [event.asset_key.path[-1] for event in reported if event.asset_key]


def test_an_entitys_own_asset_is_reported_after_the_cut_that_has_its_batch_and_no_other_entitys(
    synced: EmulatedPipeline,
) -> None:
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "moved"})
    synced.settled_tick()
    keys = keys_reported(synced)
    assert keys.index("consistent_cuts") < keys.index("account")
    assert "contact" in keys, "it lagged in the first cut, which was noted before the stream had answered"
    event = synced.instance.get_latest_materialization_event(ASSETS.keys.of_entity("Account"))
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    cut = open_cut(str(synced.warehouse))["current_state/Account"]
    assert (metadata["dagster/row_count"].value, metadata["delta_version"].value) == (cut.count(), cut.version())
    columns = cast(dg.TableSchemaMetadataValue, metadata["dagster/column_schema"]).schema.columns
    assert [column.name for column in columns] == [field.name for field in cut.schema().fields]
    assert {column.name: column.description for column in columns}["BillingCity"] == "Billing City."
    lineage = metadata["dagster/column_lineage"].value
    assert [dep.column_name for dep in lineage.deps_by_column["BillingCity"]] == ["Account.BillingCity", "BillingCity"]
    assert (metadata["deleted_rows"].value, metadata["suspect_rows"].value) == (0, 0)
    again = [each.asset_key for each in synced.sensor_tick().asset_events]
    assert ASSETS.keys.of_entity("Account") not in again, "what the run has reported, no tick reports again"
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "moved again"})
    synced.settled_tick()
    keys = keys_reported(synced)
    assert keys.index("consistent_cuts") < keys.index("account")
    assert "contact" not in keys


def test_an_entity_that_fails_is_red_alone_and_cleared_by_the_next_good_run(
    synced: EmulatedPipeline, contact_fails: list[bool]
) -> None:
    change_both(synced, "one of the two fails")
    with pytest.raises(RunFailed, match=r"Failed: Contact: .*no space left on device.*All other entities"):
        synced.settled_tick()
    run = synced.last_run()
    failed = [event.step_key for event in events_of(synced, run, dg.DagsterEventType.STEP_FAILURE)]
    assert failed == ["apply[Contact]"]
    synced.assert_equal_to_the_org(["Account"])
    for key in ASSETS.keys.of_tables:
        assert synced.failed_partitions(key) == {"Contact"}
        assert len(materializations(synced, key, "Account")) == 1
    assert {run_id for _, run_id in evaluated_in(synced).values()} == {run}, "checks are not left unevaluated"
    contact_fails.clear()
    synced.tick()
    synced.assert_equal_to_the_org()
    for key in ASSETS.keys.of_tables:
        assert synced.failed_partitions(key) == set()


@pytest.fixture
def contact_is_away(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Commits to Contact's table raise these, one after another."""
    raised: list[Exception] = []
    original = DeltaTable.create_write_transaction

    def committing(table: DeltaTable, *arguments: object, **options: object) -> object:
        if raised and table.table_uri.rstrip("/").endswith("current_state/Contact"):
            raise raised.pop()
        return original(table, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", committing)
    return raised


def away(times: int) -> list[Exception]:
    return [OrgUnavailable("https://org.example", 6, "HTTP 503") for _ in range(times)]


def retried_steps(pipeline: EmulatedPipeline) -> list[str | None]:
    restarted = events_of(pipeline, pipeline.last_run(), dg.DagsterEventType.STEP_RESTARTED)
    return [event.step_key for event in restarted]


def test_an_entitys_step_is_retried_alone_when_what_failed_may_pass(
    synced: EmulatedPipeline, contact_is_away: list[Exception]
) -> None:
    contact_is_away += away(retries.MOST_RETRIES)
    change_both(synced, "in the second try")
    synced.settled_tick()
    assert retried_steps(synced) == ["apply[Contact]"] * 2
    assert events_of(synced, synced.last_run(), dg.DagsterEventType.STEP_FAILURE) == []
    assert synced.failed_partitions(ASSETS.keys.current_state) == set()
    for key in ASSETS.keys.of_tables:
        for entity in BOTH:
            assert len(materializations(synced, key, entity)) == 1
    assert metadata(synced, ASSETS.keys.current_state, "Contact")["rows_changed"] == 1
    synced.assert_equal_to_the_org()


def test_an_outage_that_stays_fails_the_entity_after_the_last_retry(
    synced: EmulatedPipeline, contact_is_away: list[Exception]
) -> None:
    contact_is_away += away(retries.MOST_RETRIES + 1)
    change_both(synced, "in the next run")
    with pytest.raises(RunFailed, match=r"Failed: Contact: The org did not answer"):
        synced.settled_tick()
    assert synced.failed_partitions(ASSETS.keys.current_state) == {"Contact"}
    synced.assert_equal_to_the_org(["Account"])
    synced.tick()
    synced.assert_equal_to_the_org()


def test_what_a_person_has_to_mend_is_not_retried(synced: EmulatedPipeline, contact_fails: list[bool]) -> None:
    change_both(synced, "fails once")
    with pytest.raises(RunFailed):
        synced.settled_tick()
    assert retried_steps(synced) == []


def test_the_first_step_is_retried_with_a_session_and_a_subscription_of_its_own(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised, land, open_streams = away(1), CatchUp.land, []

    def landing(catch_up: CatchUp) -> object:
        found = land(catch_up)
        assert synced.server.service is not None
        open_streams.append(synced.server.service.open_streams)
        if raised:
            raise raised.pop()
        return found

    monkeypatch.setattr(CatchUp, "land", landing)
    change_both(synced, "landed by the first try")
    run = synced.launch("sync")
    assert run.success, synced.failure(run)
    assert retried_steps(synced) == ["land"]
    assert open_streams == [1, 1], "the subscription of the first try is closed: deliveries are metered"
    synced.assert_equal_to_the_org()


def test_checks_are_evaluated_by_each_run_that_materializes_so_that_they_stay_green(synced: EmulatedPipeline) -> None:
    for text in ("first", "second"):
        change_both(synced, text)
        synced.settled_tick()
        assert evaluated_in(synced) == {name: (True, synced.last_run()) for name in CHECKS}


def test_a_partition_has_a_data_version_and_is_unsynced_when_its_input_or_its_code_is_newer(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status() -> StaleStatus:
        graph = defs.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(synced.instance, graph, LoadingContextForTest(synced.instance))
        return resolver.get_status(ASSETS.keys.current_state, "Account")

    change_both(synced, "first")
    synced.settled_tick()
    (newest,) = materializations(synced, ASSETS.keys.current_state, "Account")
    assert newest.tags is not None
    assert newest.tags[DATA_VERSION_TAG] == str(synced.table("current_state/Account").version())
    assert newest.tags[CODE_VERSION_TAG] == specs.CODE_VERSION
    assert status() is StaleStatus.FRESH
    clock.sleep(EVERY_SECONDS)  # what would be reported twice within minutes is held while the stream goes on
    change_both(synced, "second")
    for event in synced.sensor_tick().asset_events:
        synced.instance.report_runless_asset_event(event)
    assert status() is StaleStatus.STALE
    synced.settled_tick()
    synced.settled_tick()
    assert status() is StaleStatus.FRESH


def test_figures_are_those_of_the_entity_and_of_the_batch(synced: EmulatedPipeline) -> None:
    records = ids(synced.org, "Account")
    for record_id in records[:12]:
        with synced.org.transaction() as one:
            one.update("Account", record_id, {"Site": "sampled"})
    with synced.org.transaction() as one:
        one.create("Contact", {"LastName": "one more"})
    synced.settled_tick()
    accounts = metadata(synced, ASSETS.keys.current_state, "Account")
    contacts = metadata(synced, ASSETS.keys.current_state, "Contact")
    assert (accounts["rows"], contacts["rows"]) == (len(records), len(ids(synced.org, "Contact")))
    assert accounts["dagster/partition_row_count"] == accounts["rows"]
    for name in ("dagster/row_count", "dagster/table_name", "dagster/uri", "dagster/column_schema"):
        assert name not in accounts, "it would be shown as that of all entities"
    assert (accounts["rows_changed"], contacts["rows_changed"]) == (12, 1)
    assert accounts["events"] == 12
    assert 0 < accounts["lag_seconds_of_newest"] <= accounts["lag_seconds"] < 120, "from the commit to the table"
    assert (accounts["deliveries"], contacts["deliveries"]) == (12, 1)
    assert accounts["api_requests"] >= 0
    assert "sample" not in accounts, "values of records go into Dagster's event log only where somebody asks for them"
    assert "lag_seconds" not in metadata(synced, ASSETS.keys.history, "Account")
    assert metadata(synced, ASSETS.keys.gap_reconciliation, "Account")["suspect_records"] == 0


def test_a_run_says_what_it_used_of_the_orgs_allowances(synced: EmulatedPipeline) -> None:
    change_both(synced, "landed by the run itself")
    before = ApiUsage(synced.org).used()
    run = synced.launch("sync")
    assert run.success, synced.failure(run)
    outputs = events_of(synced, run.run_id, dg.DagsterEventType.STEP_OUTPUT)
    used = outputs[-1].step_output_data.metadata
    assert used["deliveries"].value == 2
    assert used["api_requests"].value == ApiUsage(synced.org).used() - before, (
        "all of them, those of the audit included"
    )


def test_columns_are_described_by_what_the_org_calls_its_fields(synced: EmulatedPipeline) -> None:
    change_both(synced, "described")
    synced.settled_tick()
    columns = metadata(synced, ASSETS.keys.current_state, "Account")["columns"].columns
    described = {column.name: column.description for column in columns}
    assert described["BillingCity"] == "Billing City."
    assert described["_in_doubt"]
    assert [name for name, description in described.items() if not description] == []


# -- what a person launches


def test_a_person_materializes_an_entity_and_the_run_tells_version_checks_and_figures(
    synced: EmulatedPipeline,
) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", list(BOTH))
    change_both(synced, "by hand")
    landed = synced.materialize(["raw_events"], "Account")
    assert landed.success, synced.failure(landed)
    run = synced.materialize([key.path[-1] for key in ASSETS.keys.of_tables], "Account")
    assert run.success, synced.failure(run)
    synced.assert_equal_to_the_org(["Account"])
    for key in ASSETS.keys.of_tables:
        (newest,) = materializations(synced, key, "Account")
        assert newest.tags is not None
        assert newest.tags[DATA_VERSION_TAG] == str(synced.table("current_state/Account").version())
        assert newest.tags[CODE_VERSION_TAG] == specs.CODE_VERSION
        assert materializations(synced, key, "Contact") == []
    assert {run_id for _, run_id in evaluated_in(synced).values()} == {run.run_id}
    assert len(materializations(synced, ASSETS.keys.raw_events, "Account")) == 1


def test_of_a_range_with_one_that_fails_the_others_are_done_and_shown_so(
    synced: EmulatedPipeline, contact_fails: list[bool]
) -> None:
    synced.instance.add_dynamic_partitions("salesforce_entity", list(BOTH))
    change_both(synced, "of a backfill")
    synced.materialize(["raw_events"], *BOTH)
    names = [key.path[-1] for key in ASSETS.keys.of_tables]
    run = synced.materialize(names, *BOTH)
    assert not run.success
    assert synced.failure(run).startswith("Failed: Contact: ")
    assert len(materializations(synced, ASSETS.keys.text_fields, "Account")) == 1
    contact_fails.clear()
    again = synced.materialize(names, *BOTH)
    assert again.success, synced.failure(again)
    assert metadata(synced, ASSETS.keys.current_state, "Contact")["rows"] == 30
    synced.assert_equal_to_the_org()


def test_what_cannot_be_computed_alone_is_not_chosen_alone() -> None:
    job = defs.resolve_implicit_global_asset_job_def()
    with pytest.raises(dg.DagsterInvalidSubsetError):
        job.get_subset(asset_selection={ASSETS.keys.current_state})


def test_a_step_that_is_started_without_the_one_before_says_what_to_do() -> None:
    scope = RunScope()
    scope.hand_on(PreparedEntities({}))
    assert scope.handed_on(PreparedEntities).of == {}
    with pytest.raises(NotInMemory, match=r"found \(StepLanded\) is not in this process.*Launch the job again"):
        scope.handed_on(StepLanded)


def test_a_run_that_goes_on_says_in_its_step_why_it_is_still_started_and_when_it_ends(synced: EmulatedPipeline) -> None:
    change_both(synced, "followed")
    assert not synced.sensor_tick().run_requests, "what landed just now may not be complete"
    clock.sleep(load_settings().settle_seconds)
    (request,) = synced.sensor_tick().run_requests or ()
    run = synced.launch("sync", run_config=request.run_config)
    assert run.success
    of_the_step = [each.message for each in synced.instance.all_logs(run.run_id) if each.step_key == "follow"]
    (said,) = [line for line in of_the_step if "goes on" in line]
    assert "with what the sensor lands, for up to 10 minutes" in said
    assert "ends when nothing has come for 20 s or another run waits" in said
    synced.assert_equal_to_the_org(BOTH)
