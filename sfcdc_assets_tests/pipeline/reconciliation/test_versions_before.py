"""The history before day zero, read from the org's field history, against the org's own log.

An org lives for a while before it is copied: tracked fields change in random transactions, several in a second, with
owners, lookups, long texts, records that are deleted, and a field whose tracking is off for a while.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import polars as pl
import pytest

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.setup.companion_setup import track_fields
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_reads.field_history import field_history_of, rows_within
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.reconciliation.past_checks import (
    assert_true_to_the_log,
    before,
    past_of,
    refused_past,
)
from sfcdc_assets_tests.pipeline.story import go_on, story
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow, in_order

pytestmark = pytest.mark.slow

SEED = 71
TRACKED = {
    "Account": [
        "Name", "Industry", "AnnualRevenue", "NumberOfEmployees", "OwnerId", "ParentId", "Description",
        "SLAExpirationDate__c", "Is_Partner__c", "Next_Review__c", "Regions__c", "Phone",
    ],
    "Opportunity": ["StageName", "Amount", "CloseDate", "AccountId"],
    "Invoice_Statement__c": ["Status__c", "Paid__c", "Line_Count__c", "Description__c"],
}  # fmt: skip
ROUNDS = 60


def value_of(random: Random, org: EmulatedOrg, entity: str, name: str) -> Any:
    definition = org.definitions[entity].fields_by_name[name]
    while (value := _value_of(random, org, definition)) is None and not definition.nillable:
        pass
    return value


def _value_of(random: Random, org: EmulatedOrg, definition: FieldDefinition) -> Any:
    if definition.type == "reference":
        of = {"OwnerId": [org.users.integration, org.users.automated_process]}
        return random.choice(of.get(definition.name) or ids(org, "Account")[:4])
    if definition.type == "picklist":
        return random.choice(definition.picklist_values)
    choices: dict[str, Sequence[Any]] = {
        "boolean": [True, False],
        "int": [None, 1, 20, 300],
        "date": [None, "2026-01-31", "2026-02-28"],
        "datetime": [None, "2026-01-31T10:00:00.000Z", "2026-02-28T11:30:00.000Z"],
        "multipicklist": [None, "EMEA", "APAC"],
    }
    if definition.type in ("currency", "double"):
        return random.choice([None, 0, 1.5, 20_000, 123_456.78])
    if definition.length > 255:
        return random.choice(["short", "long " * 80])
    return random.choice(choices.get(definition.type, ["a", "b", 'c "quoted", with a comma', "0123456789"]))


def live(org: EmulatedOrg, random: Random) -> None:
    """Random transactions, some in one second, by two users. Phones are changed while they are not tracked, too."""
    for number in range(ROUNDS):
        if number in (20, 30):
            names = [name for name in TRACKED["Account"] if name != "Phone" or number == 30]
            track_fields(org, "Account", names)
        user = random.choice([org.users.integration, org.users.automated_process])
        with org.transaction(user_id=user) as work:
            for entity, tracked in TRACKED.items():
                for record_id in random.sample(list(ids(org, entity)), 3):
                    names = random.sample(tracked, random.randint(1, 3))
                    values = {name: value_of(random, org, entity, name) for name in names}
                    work.update(entity, record_id, {k: v for k, v in values.items() if v != record_id})
            if number == 40:
                work.delete("Opportunity", ids(org, "Opportunity")[1])
            if number == 15:
                work.create("Account", {"Name": "made later", "Industry": "Banking"})
        org.clock.sleep(random.choice([0, 0, 0.3, 2, 60, 3600]))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """An org that lived before it was copied, and its copy."""
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("before"), [*TRACKED, "Contact"], records=6, seed=SEED) as pipeline:
        for entity, names in TRACKED.items():
            track_fields(pipeline.org, entity, names)
        pipeline.org.clock.sleep(3600)
        live(pipeline.org, Random(SEED))
        pipeline.org.clock.sleep(7200)
        pipeline.sync()
        yield pipeline


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    go_on(shared, monkeypatch)
    return shared


def test_a_dry_run_says_what_there_is_and_writes_nothing(org: EmulatedPipeline) -> None:
    versions = org.table("history/Account").version()
    result = sfcdc("history-before", "--entity", "account", "--dry-run")
    assert result.exit_code == 0, result.stderr
    first, *fields = result.stdout.splitlines()
    assert first.startswith("Account: AccountHistory has ")
    assert first.endswith("To read them takes about 1 API request.")
    assert any(line.startswith("  Industry: ") and ", the oldest of 20" in line for line in fields)
    assert org.table("history/Account").version() == versions


def test_an_object_without_a_field_history_is_refused_with_what_to_do(org: EmulatedPipeline) -> None:
    assert "Set History Tracking" in refusal(sfcdc("history-before", "--entity", "Contact"))
    assert "Did you mean Contact?" in refusal(sfcdc("history-before", "--entity", "Contakt"))


def test_a_past_is_not_read_where_the_org_has_no_requests_to_spare(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_SNAPSHOT_RESERVE_PERCENT", "100")
    said = refused_past("Account")
    assert "Account: not all of its field history is read, because the org has " in said
    assert past_of(org, "Account") == []


@pytest.mark.parametrize("entity", TRACKED)
def test_rest_and_bulk_give_the_same_rows_of_each_window(org: EmulatedPipeline, entity: str) -> None:
    middle = ids(org.org, entity)[2]
    with connect(load_settings()) as connected:
        source = field_history_of(connected.session, entity)
        for window in (IdWindow(), IdWindow(None, middle), IdWindow(middle, None)):
            of_rest, of_bulk = (
                pl.DataFrame(rows_within(connected.session, source, window, by_bulk=by_bulk)).sort("Id")
                for by_bulk in (False, True)
            )
            numbers = pl.col("DataType").is_in(["Double", "Currency"])
            assert of_rest.height > 20
            assert of_rest.filter(~numbers).equals(of_bulk.filter(~numbers))
            assert of_rest.select("Id", "Field", "CreatedDate").equals(of_bulk.select("Id", "Field", "CreatedDate"))
            assert all(window.has(each) for each in of_rest["record_id"])


def test_what_was_before_the_copy_is_as_the_orgs_own_log_has_it(org: EmulatedPipeline) -> None:
    reports = {each["entity"]: each for each in before(*TRACKED)}
    assert reports["Opportunity"]["field_history"] == "OpportunityFieldHistory"
    for entity in TRACKED:
        past = past_of(org, entity)
        assert len(past) == reports[entity]["versions"] > 20
        assert_versions_follow(org.all_versions(entity))
        assert assert_true_to_the_log(org.org, entity, past) > 100
        assert {row["_is_deleted"] for row in past} == {False}
        assert all(row["_position"] == row["_superseded_at"] for row in past)
    reported = {field for row in past_of(org, "Account") for field in row["_certain_fields"]}
    assert {"Name", "Industry", "OwnerId", "ParentId", "Is_Partner__c", "Next_Review__c", "CreatedDate"} <= reported
    assert not {"Description", "Regions__c"} & reported, "their rows say only that they changed"
    changed = {field for row in past_of(org, "Account") for field in row["_changed_fields"] or ()}
    assert {"Description", "Regions__c"} <= changed
    users = {row["_commit_user"] for row in past_of(org, "Account")}
    assert users >= {org.org.users.integration, org.org.users.automated_process}
    gaps = {each["field"]: each["count"] for each in reports["Account"]["misfits"] if each["why"] == "gap"}
    assert set(gaps) == {"Phone"}, "its tracking was off for a while"


def test_run_again_it_changes_nothing(org: EmulatedPipeline) -> None:
    before(*TRACKED)
    versions = {entity: org.table(f"history/{entity}").version() for entity in TRACKED}
    result = sfcdc("history-before", "--entity", "Account")
    assert "Account: 0 versions of 0 records before the first one that was known" in result.stdout
    assert "records had theirs already" in result.stdout
    assert [each["versions"] for each in before(*TRACKED)] == [0, 0, 0]
    assert {entity: org.table(f"history/{entity}").version() for entity in TRACKED} == versions


def test_a_query_at_a_time_before_the_copy_has_it_at_once(org: EmulatedPipeline) -> None:
    before(*TRACKED)
    version = next(row for row in past_of(org, "Account") if "Industry" in row["_certain_fields"])
    at = version["_valid_from"].isoformat()
    query = f"SELECT Industry, _in_doubt FROM account_history WHERE Id = '{version['Id']}' AND _valid_to IS NULL"
    result = sfcdc("sql", "--at", at, "--format", "json", query)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == [{"Industry": version["Industry"], "_in_doubt": True}]


def test_events_and_reads_go_on_top_and_a_rebuild_keeps_what_was_before(org: EmulatedPipeline) -> None:
    before(*TRACKED)
    kept = sorted(past_of(org, "Account"), key=lambda row: (row["Id"], *in_order(row)))
    first, second, *_ = ids(org.org, "Account")
    with org.org.transaction() as work:
        work.update("Account", first, {"Industry": "Energy"})
        work.delete("Account", second)
    org.sync()
    assert_versions_follow(org.all_versions("Account"))
    result = sfcdc("rebuild", "--entity", "Account")
    assert result.exit_code == 0, result.stderr
    assert f"with {len(kept):,} earlier versions kept" in result.stderr
    after = sorted(past_of(org, "Account"), key=lambda row: (row["Id"], *in_order(row)))
    assert [{**row, "_batch": 0} for row in after] == [{**row, "_batch": 0} for row in kept]
    assert_versions_follow(org.all_versions("Account"))
    verified = sfcdc("verify", "--entity", "Account", "--json")
    assert verified.exit_code == 0, verified.output
    again = sfcdc("rebuild", "--from-org", "--entity", "Account")
    assert again.exit_code == 0, again.stderr
    assert_versions_follow(org.all_versions("Account"))
    before("Account")
    assert_versions_follow(org.all_versions("Account"))
    assert assert_true_to_the_log(org.org, "Account", past_of(org, "Account")) > 100
    known = next(row["Id"] for row in past_of(org, "Account") if "Industry" in row["_certain_fields"])
    explained = sfcdc("explain", "Account", known, "Industry")
    assert explained.exit_code == 0, explained.output
    assert "FIELD_HISTORY" in explained.stdout
