"""`SFCDC_POLL=*` over an org with an object of each kind: what can be read is a table, and the rest is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.store.poll_notes import note_polls, read_poll_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.polls import known_objects
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import in_one_line, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests, served
from sfcdc_assets_tests.pipeline.story import go_on
from sfcdc_assets_tests.simulated_clock import SimulatedClock

KINDS = {
    "Account",
    "AccountHistory",
    "AccountShare",
    "ActivityFieldHistory",
    "ApexPageInfo",
    "ApexTestQueueItem",
    "AsyncApexJob",
    "Attachment",
    "BackgroundOperationResult",
    "CaseStatus",
    "ContentDocument",
    "ContentDocumentLink",
    "Contract",
    "FlexQueueItem",
    "LoginHistory",
    "OutgoingEmail",
    "Reading__b",
    "SiteDetail",
    "TabDefinition",
    "User",
}
NEEDED = {"Case", "Contact", "Opportunity", "Lead", "Task", "Profile", "UserRole", "Organization"}
READ = (
    "Account",
    "AccountHistory",
    "AccountShare",
    "ActivityFieldHistory",
    "ApexTestQueueItem",
    "AsyncApexJob",
    "Attachment",
    "BackgroundOperationResult",
    "CaseStatus",
    "ContentDocument",
    "ContentDocumentLink",
    "Contract",
    "LoginHistory",
    "TabDefinition",
)
COMPARED = [each for each in READ if each != "Attachment"]
"""The oracle does not know the size of an attachment's file, which is worked out when it is read."""
SEED = 71
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """An org of such objects, all of which were copied that can be."""
    print(f"seed {SEED}")
    folder = tmp_path_factory.mktemp("whole_org")
    objects = [each for each in whole_org() if each.name in KINDS | NEEDED]
    org = EmulatedOrg(folder, seed=SEED, clock=SimulatedClock(runs=True), objects=objects)
    org.populate(5)
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            settings_of_polls(pipeline, patch)
            first = sfcdc("sync", "--until-caught-up")
            assert first.exit_code == 0, first.output
            yield pipeline


def settings_of_polls(pipeline: EmulatedPipeline, patch: pytest.MonkeyPatch) -> None:
    go_on(pipeline, patch)
    patch.setenv("SFCDC_CHANNELS", "none")
    patch.setenv("SFCDC_POLL", "*, AccountHistory, AccountShare")
    patch.setenv("SFCDC_POLL_EXCLUDE", ", ".join(sorted(NEEDED | {"User", "*Permission*"})))


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    settings_of_polls(shared, monkeypatch)
    shared.org.clock.sleep(1000)
    return shared


def change(pipeline: EmulatedPipeline, entity: str, values: dict[str, Any]) -> str:
    """Change a record; its Id."""
    first = ids(pipeline.org, entity)[0]
    with pipeline.org.transaction() as work:
        work.update(entity, first, values)
    return first


def a_day_later(pipeline: EmulatedPipeline) -> None:
    """All that is looked at once a day was looked at, and what was found is applied."""
    pipeline.org.clock.sleep(90_000)
    warehouse = Warehouse(str(pipeline.warehouse))
    for _ in range(2):
        with open_org(warehouse, load_settings()) as connected:
            reader = PolledReader(warehouse, connected)
            for _ in range(12):
                reader.land(TICK)
        pipeline.sync()


def test_everything_that_can_be_read_is_a_table_that_equals_the_org(org: EmulatedPipeline) -> None:
    org.assert_equal_to_the_org(COMPARED)
    assert set(org.versions()) == {*READ, "RecordType"}


def test_what_is_left_out_is_reported_with_the_reason_by_status_and_doctor(org: EmulatedPipeline) -> None:
    org.sync()
    left_out = json.loads(sfcdc("status", "--json").stdout)["left_out"]
    assert "empty Id" in left_out["ApexPageInfo"]
    assert left_out.keys() >= {"EntityDefinition", "FlexQueueItem", "OutgoingEmail", "Reading__b", "SiteDetail"}
    assert left_out.keys().isdisjoint(READ)
    reported = in_one_line(sfcdc("status"))
    assert "SFCDC_POLL leaves out" in reported
    assert "FlexQueueItem (it is the order of a queue" in reported
    found = in_one_line(sfcdc("doctor"))
    assert "a query has to name the part" in found
    assert "Files are not copied: Body" in found
    assert "ChangeEvent" not in found


def test_every_command_knows_them(org: EmulatedPipeline) -> None:
    verified = sfcdc("verify")
    assert verified.exit_code == 0, verified.output
    for entity in ("CaseStatus", "ContentDocumentLink", "TabDefinition", "AccountShare"):
        rebuilt = sfcdc("rebuild", "--entity", entity)
        assert rebuilt.exit_code == 0, rebuilt.output
        explained = sfcdc("explain", entity, ids(org.org, entity)[0])
        assert explained.exit_code == 0, explained.output
    assert sfcdc("cut").exit_code == 0
    counted = sfcdc("sql", "select count(*) as n from contentdocumentlink", "--json")
    assert counted.exit_code == 0, counted.output
    org.assert_equal_to_the_org(COMPARED)


def test_what_has_changed_since_a_token_is_reported_once(org: EmulatedPipeline) -> None:
    org.sync()
    assert sfcdc("changes", "Contract", "--token-file", "contract.token").exit_code == 0
    changed, gone = ids(org.org, "Contract")[:2]
    with org.org.transaction() as work:
        work.update("Contract", changed, {"ContractTerm": 77})
        work.delete("Contract", gone)
    org.org.clock.sleep(1000)
    org.sync()
    said = sfcdc("changes", "Contract", "--token-file", "contract.token")
    assert said.exit_code == 0, said.output
    reported = {each["Id"]: each for each in map(json.loads, said.stdout.splitlines())}
    assert {each: row["_op"] for each, row in reported.items()} == {changed: "update", gone: "delete"}
    assert reported[changed]["ContractTerm"] == 77
    assert not sfcdc("changes", "Contract", "--token-file", "contract.token").stdout
    with org.org.transaction() as work:
        work.undelete("Contract", gone)


def test_a_file_that_is_asked_for_is_a_column_with_the_path_by_which_the_org_serves_it(
    org: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Attachment.toml").write_text('fields = ["Name", "body"]')
    monkeypatch.setenv("SFCDC_POLL", "Attachment")
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(tmp_path))
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    done = sfcdc("sync", "--until-caught-up")
    assert done.exit_code == 0, done.output
    rows = json.loads(sfcdc("sql", "--json", 'SELECT "Id", "Body" FROM attachment').stdout)
    assert {row["Id"] for row in rows} == set(ids(org.org, "Attachment"))
    assert all(row["Body"].endswith(f"/sobjects/Attachment/{row['Id']}/Body") for row in rows)


def test_what_changes_behind_its_only_stamp_or_has_none_is_found_within_a_day(org: EmulatedPipeline) -> None:
    job = change(org, "AsyncApexJob", {"Status": "Completed", "JobItemsProcessed": 7})
    item = change(org, "ApexTestQueueItem", {"Status": "Processing", "ExtendedStatus": "(1/3)"})
    tab = change(org, "TabDefinition", {"Label": "Another"})
    with org.org.transaction() as work:
        gone = ids(org.org, "ContentDocumentLink")[0]
        work.hard_delete("ContentDocumentLink", gone)
        document = ids(org.org, "ContentDocument")[0]
        account = ids(org.org, "Account")[0]
        link = work.create("ContentDocumentLink", {"ContentDocumentId": document, "LinkedEntityId": account})
    org.sync()
    assert org.rows("TabDefinition")[tab]["Label"] != "Another", "nothing tells of it"
    a_day_later(org)
    assert org.rows("AsyncApexJob")[job]["Status"] == "Completed"
    assert org.rows("ApexTestQueueItem")[item]["Status"] == "Processing", "no list names it"
    assert org.rows("TabDefinition")[tab]["Label"] == "Another"
    assert org.rows("ContentDocumentLink")[gone]["_is_deleted"]
    assert str(link) in org.rows("ContentDocumentLink")


def test_what_may_not_be_read_by_its_stamp_though_describe_says_so_is_compared_as_a_whole(
    org: EmulatedPipeline,
) -> None:
    synced = sfcdc("sync", "--until-caught-up")
    assert synced.exit_code == 0, synced.output
    warehouse, entity = Warehouse(str(org.warehouse)), "BackgroundOperationResult"
    note = read_poll_notes(warehouse)[entity]
    assert (note.refused_stamp, note.error) == ("CreatedDate", None)
    result = change(org, entity, {"Message": "It is over."})
    with org.org.transaction() as work:
        made = work.create(entity, {"Message": "Another one."})
    a_day_later(org)
    assert org.rows(entity)[result]["Message"] == "It is over."
    assert str(made) in org.rows(entity)
    note_polls(warehouse, {entity: replace(read_poll_notes(warehouse)[entity], refused_stamp=None)})
    assert sfcdc("sync", "--until-caught-up").exit_code == 0
    assert read_poll_notes(warehouse)[entity].refused_stamp == "CreatedDate", "a note that is lost is found again"


def test_verify_has_what_no_stamp_tells_of_read_back_and_compares_it_again(org: EmulatedPipeline) -> None:
    """It is as good a comparison as that of each day: what that would find is nothing for a person to look into."""
    org.sync()
    job = change(org, "AsyncApexJob", {"Status": "Aborted", "JobItemsProcessed": 3})
    tab = change(org, "TabDefinition", {"Label": "Renamed"})
    asked = ("--entity", "AsyncApexJob", "--entity", "TabDefinition", "--json")
    found = sfcdc("verify", *asked)
    assert found.exit_code == 0, found.output
    assert {each["entity"]: each["compared_again"] for each in json.loads(found.stdout)["entities"]} == {
        "AsyncApexJob": 1,
        "TabDefinition": 1,
    }
    assert org.rows("AsyncApexJob")[job]["Status"] == "Aborted"
    assert org.rows("TabDefinition")[tab]["Label"] == "Renamed"


def test_a_named_object_that_cannot_be_read_is_refused_with_the_reason_and_the_way(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_POLL", "*, AccountHistory, AccountShare, SiteDetail")
        found = sfcdc("sync", "--until-caught-up")
        assert found.exit_code == 1
        assert "SiteDetail cannot be polled" in found.stderr
        assert "Instead, ask for the part" in found.stderr
    again = sfcdc("sync", "--until-caught-up")
    assert again.exit_code == 0, again.output


def test_an_object_of_which_nothing_is_known_is_left_out_when_the_org_refuses_it(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tuple(each for each in known_objects.KNOWN_OBJECTS if not each.fits("OutgoingEmail"))
    monkeypatch.setattr(known_objects, "KNOWN_OBJECTS", others)
    for _ in range(2):
        found = sfcdc("sync", "--until-caught-up")
        assert found.exit_code == 0, found.output
    assert "OutgoingEmail" not in org.versions()
    assert "This query is not supported" in json.loads(sfcdc("status", "--json").stdout)["left_out"]["OutgoingEmail"]


def test_a_used_up_allowance_ends_a_sync_with_1_and_shows_in_status(org: EmulatedPipeline) -> None:
    org.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 100, path="/composite")
    found = sfcdc("sync", "--until-caught-up")
    assert found.exit_code == 1
    assert "takes no more API requests" in found.stderr
    assert "takes no more API requests" in in_one_line(sfcdc("status"))
    assert read_poll_notes(Warehouse(str(org.warehouse)))["Account"].error is None
