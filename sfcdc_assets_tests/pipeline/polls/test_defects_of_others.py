"""What users of other pollers report as lost or doubled, a test each, named after the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.store.poll_notes import note_polls, read_poll_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.covered_time import CoveredTime
from sfcdc_assets.landing.poll_timeouts import NOW_ALL, TICK
from sfcdc_assets.landing.polled_reader import PolledReader
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.replication import deleted_since
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import only_settings_of_tests, served
from sfcdc_assets_tests.pipeline.story import go_on
from sfcdc_assets_tests.simulated_clock import SimulatedClock

pytestmark = pytest.mark.slow

OBJECTS = (
    *("Account", "AccountHistory", "AccountShare", "CampaignMember", "Case", "Contract"),
    *("CurrencyType", "DatedConversionRate", "Lead", "Campaign"),
)
SEED = 73


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """An org whose objects were copied once."""
    print(f"seed {SEED}")
    folder = tmp_path_factory.mktemp("defects")
    org = EmulatedOrg(folder, seed=SEED, clock=SimulatedClock(runs=True), objects=whole_org())
    org.populate(
        dict.fromkeys(
            ["Account", "Campaign", "Contact", "Lead", "Case", "Contract", "CurrencyType", "DatedConversionRate"], 6
        )
        | {"CampaignMember": 80}
    )
    with pytest.MonkeyPatch.context() as patch:
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            settings_of_polls(pipeline, patch)
            pipeline.sync()
            yield pipeline


def settings_of_polls(pipeline: EmulatedPipeline, patch: pytest.MonkeyPatch) -> None:
    go_on(pipeline, patch)
    patch.setenv("SFCDC_CHANNELS", "none")
    patch.setenv("SFCDC_POLL", ",".join(OBJECTS))


@pytest.fixture
def org(shared: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    settings_of_polls(shared, monkeypatch)
    shared.org.clock.sleep(1000)
    return shared


def test_history_rows_of_one_second_are_all_read(org: EmulatedPipeline) -> None:
    """airbyte 42490, 42537: some of the history rows of one CreatedDate second were lost."""
    first = ids(org.org, "Account")[0]
    for number in range(5):
        with org.org.transaction() as work:
            work.update("Account", first, {"Name": f"Within a second {number}"})
        if number == 2:
            org.sync()
    org.org.clock.sleep(1000)
    org.sync()
    assert set(org.rows("AccountHistory")) == set(ids(org.org, "AccountHistory"))


def test_a_share_of_a_new_owner_is_read_and_the_one_of_the_old_one_is_found_to_be_gone(org: EmulatedPipeline) -> None:
    """Shares are deleted without a trace: no recycle bin, no stamp."""
    user = ids(org.org, "User")[-1]
    with org.org.transaction() as work:
        work.update("Account", ids(org.org, "Account")[1], {"OwnerId": user})
    org.sync()
    assert set(ids(org.org, "AccountShare")) <= set(org.rows("AccountShare"))
    org.org.clock.sleep(90_000)
    for _ in range(2):
        org.sync()
        org.org.clock.sleep(1000)
    living = {each for each, row in org.rows("AccountShare").items() if not row["_is_deleted"]}
    assert living == set(ids(org.org, "AccountShare"))


def test_what_is_deleted_at_once_is_found_though_it_was_in_no_recycle_bin(org: EmulatedPipeline) -> None:
    """airbyte 44845: members of campaigns were never seen as deleted."""
    gone = ids(org.org, "CampaignMember")[0]
    with org.org.transaction() as work:
        work.delete("CampaignMember", gone)
    org.org.clock.sleep(90_000)
    for _ in range(2):
        org.sync()
        org.org.clock.sleep(1000)
    assert org.rows("CampaignMember")[gone]["_is_deleted"]


def test_a_deleted_record_that_the_org_lists_and_still_has_stays_in_the_table(org: EmulatedPipeline) -> None:
    """fivetran: getDeleted lists a deactivated CurrencyType. Here one is deleted, listed, and undeleted."""
    kept, gone = ids(org.org, "Case")[:2]
    with org.org.transaction() as work:
        work.delete("Case", kept)
    with org.org.transaction() as work:
        work.undelete("Case", kept)
        work.hard_delete("Case", gone)
    org.org.clock.sleep(90_000)
    for _ in range(2):
        org.sync()
        org.org.clock.sleep(1000)
    rows = org.rows("Case")
    assert (rows[kept]["_is_deleted"], rows[gone]["_is_deleted"]) == (False, True)


def test_deletes_are_found_though_the_org_lists_none_because_they_are_too_many(org: EmulatedPipeline) -> None:
    """fivetran: a table is imported again where getDeleted is refused: more than 600,000 ids, or a trimmed log."""
    gone = ids(org.org, "Case")[-1]
    with org.org.transaction() as work:
        work.hard_delete("Case", gone)
    org.server.rest_faults.arm(RestFault.REFUSED, 10, path="/sobjects/Case/deleted", code="EXCEEDED_ID_LIMIT")
    a_day_later(org)
    (refusal,) = org.server.rest_faults.armed()
    org.server.rest_faults.disarm()
    assert refusal.times < 10, "the org was asked"
    assert org.rows("Case")[gone]["_is_deleted"]


@pytest.mark.parametrize(("entity", "refusal"), [("Lead", None), ("Campaign", "EXCEEDED_ID_LIMIT")])
def test_an_erased_record_that_the_org_still_has_hides_no_delete_of_another(
    org: EmulatedPipeline, entity: str, refusal: str | None
) -> None:
    """The org counts one more that the table may not have, and one less that was deleted for good: the same number."""
    org.sync()
    erased, gone = ids(org.org, entity)[:2]
    assert sfcdc("forget", "--entity", entity, "--id", erased).exit_code == 0
    with org.org.transaction() as work:
        work.hard_delete(entity, gone)
    if refusal is not None:
        org.server.rest_faults.arm(RestFault.REFUSED, 10, path=f"/sobjects/{entity}/deleted", code=refusal)
    a_day_later(org)
    org.server.rest_faults.disarm()
    rows = org.rows(entity)
    assert rows[gone]["_is_deleted"]
    assert erased not in rows


def test_a_clock_that_was_ahead_and_was_set_back_puts_off_no_count(org: EmulatedPipeline) -> None:
    """What was noted of a time that is still to come says nothing of now."""
    org.sync()
    warehouse, ahead_ms = Warehouse(str(org.warehouse)), org.org.clock() + 300 * 86_400_000
    notes = read_poll_notes(warehouse)
    note_polls(warehouse, {each: replace(note, swept_at_ms=ahead_ms) for each, note in notes.items()})
    gone = ids(org.org, "CampaignMember")[0]
    with org.org.transaction() as work:
        work.delete("CampaignMember", gone)
    a_day_later(org)
    assert org.rows("CampaignMember")[gone]["_is_deleted"]


def test_a_used_up_allowance_is_no_success(org: EmulatedPipeline) -> None:
    """airbyte: an error of the quota ends the sync as a success."""
    org.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 100, path="/composite")
    assert sfcdc("sync", "--until-caught-up").exit_code == 1


def test_old_and_new_values_of_a_history_are_in_its_table(org: EmulatedPipeline) -> None:
    """airbyte 6886: OldValue and NewValue were left out."""
    first = ids(org.org, "Account")[2]
    with org.org.transaction() as work:
        work.update("Account", first, {"Name": "Said twice"})
    org.org.clock.sleep(1000)
    org.sync()
    assert "Said twice" in {row["NewValue"] for row in org.rows("AccountHistory").values()}


def test_changes_that_come_while_the_fields_change_are_kept(org: EmulatedPipeline) -> None:
    """airbyte 77627: a change of the schema lost rows."""
    org.org.setup.add_field("Case", "Extra__c", {"type": "string", "length": 20})
    first, second = ids(org.org, "Case")[:2]
    with org.org.transaction() as work:
        work.update("Case", first, {"Subject": "with the field", "Extra__c": "x"})
    org.org.clock.sleep(90_000)
    org.sync()
    org.org.setup.drop_field("Case", "Extra__c")
    with org.org.transaction() as work:
        work.update("Case", second, {"Subject": "without the field"})
    for _ in range(2):
        org.org.clock.sleep(4000)
        org.sync()
    rows = org.rows("Case")
    assert (rows[first]["Subject"], rows[second]["Subject"]) == ("with the field", "without the field")


def test_a_new_field_is_in_the_table_with_the_next_change_and_not_a_day_later(org: EmulatedPipeline) -> None:
    """estuary: a list of fields that was kept for a day hid new ones."""
    org.org.setup.add_field("Account", "Level__c", {"type": "string", "length": 20})
    org.org.clock.sleep(1000)
    first = ids(org.org, "Account")[0]
    with org.org.transaction() as work:
        work.update("Account", first, {"Level__c": "gold"})
    org.sync()
    org.org.clock.sleep(1000)
    org.sync()
    assert org.rows("Account")[first]["Level__c"] == "gold"


def test_a_change_made_while_a_poll_is_applied_is_behind_no_clock_of_ours(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """object-sync-for-salesforce 137: the time at which the work was done was kept as that up to which it was done; and
    a clock that is an hour ahead of the org's. The org does not say what is open, which would hide either."""
    monkeypatch.setattr(CoveredTime, "ask", lambda *_: 0)
    first, second = ids(org.org, "Case")[:2]
    with org.org.transaction() as work:
        work.update("Case", first, {"Subject": "read by the poll"})
    now_ms = clock.now_ms
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now_ms", lambda: now_ms() + 3_600_000)
        with connect(load_settings()) as connected:
            PolledReader(Warehouse(str(org.warehouse)), connected).land(NOW_ALL)
        with org.org.transaction() as work:
            work.update("Case", second, {"Subject": "after the poll, before it is applied"})
        org.sync()
    org.org.clock.sleep(4600)
    org.sync()
    rows = org.rows("Case")
    assert rows[first]["Subject"] == "read by the poll"
    assert rows[second]["Subject"] == "after the poll, before it is applied"


def test_a_contract_that_expires_by_itself_is_found_though_no_stamp_moves(org: EmulatedPipeline) -> None:
    """estuary: the status of contracts changes with the date, and no cursor tells of it."""
    first = ids(org.org, "Contract")[0]
    last_day = datetime.fromtimestamp(org.org.clock() / 1000 + 3600, UTC).date()  # over within 25 hours, and not yet
    with org.org.transaction() as work:
        work.update("Contract", first, {"Status": "Activated", "EndDate": f"{last_day}"})
    stamp = next(each for each in org.org.records("Contract") if each["Id"] == first)["SystemModstamp"]
    org.sync()
    assert org.rows("Contract")[first]["Status"] == "Activated"
    a_day_later(org)
    (in_org,) = (each for each in org.org.records("Contract") if each["Id"] == first)
    assert (in_org["Status"], in_org["SystemModstamp"]) == ("Expired", stamp)
    assert org.rows("Contract")[first]["Status"] == "Expired"


def test_an_object_whose_file_says_so_is_compared_more_often_than_once_a_day(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a_day_later(org)
    second = ids(org.org, "Contract")[1]
    with org.org.transaction() as work:
        work.set_unstamped("Contract", second, {"Status": "In Approval Process"})
    a_day_later(org, hours=6)
    assert org.rows("Contract")[second]["Status"] == "Draft", "it is compared once a day, and was today"
    (tmp_path / "Contract.toml").write_text("compare_hours = 5")
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(tmp_path))
    a_day_later(org, hours=0)
    assert org.rows("Contract")[second]["Status"] == "In Approval Process"


def test_the_loser_of_a_merge_is_deleted_and_says_into_which_record_it_went(org: EmulatedPipeline) -> None:
    """copystorm: losers of merges count as gone; the table says what became of them."""
    master, loser = ids(org.org, "Account")[:2]
    with org.org.transaction() as work:
        work.merge("Account", master, (loser,), reparent=True)
    org.sync()
    row = org.rows("Account")[loser]
    assert (row["_is_deleted"], row["_deleted_reason"]) == (True, "merged")
    assert not org.rows("Account")[master]["_is_deleted"]
    org.assert_equal_to_the_org(["Account"])


def test_records_that_vanish_by_the_dozen_are_not_believed_to_be_gone_before_a_person_says_so(
    org: EmulatedPipeline,
) -> None:
    """All pollers: a lost permission looks as if all had been deleted."""
    gone = thirty_members_less(org)
    org.server.rest_faults.arm(
        RestFault.REFUSED, 100, path="/sobjects/CampaignMember/deleted", code="EXCEEDED_ID_LIMIT"
    )
    a_day_later(org)
    rows = org.rows("CampaignMember")
    assert not any(rows[each]["_is_deleted"] for each in gone)
    assert "sfcdc accept --entity CampaignMember" in " ".join(sfcdc("status").stdout.split())
    assert sfcdc("accept", "--entity", "CampaignMember").exit_code == 0
    for _ in range(2):
        org.sync()
        org.org.clock.sleep(1000)
    assert all(org.rows("CampaignMember")[each]["_is_deleted"] for each in gone)


def test_records_that_vanish_by_the_dozen_are_gone_where_the_org_lists_them_as_deleted_and_shows_none(
    org: EmulatedPipeline,
) -> None:
    """A purge or a change of owners is routine, and two witnesses agree."""
    gone = thirty_members_less(org)
    a_day_later(org)
    assert all(org.rows("CampaignMember")[each]["_is_deleted"] for each in gone)
    assert "accept" not in sfcdc("status").stdout


def test_records_of_an_object_whose_file_says_so_may_vanish_by_the_dozen(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Shares: those of all records that get another owner are replaced, and the org lists none as deleted."""
    (tmp_path / "AccountShare.toml").write_text("vanish_percent = 100", encoding="utf-8")
    monkeypatch.setenv("SFCDC_POLL_OBJECTS", str(tmp_path))
    monkeypatch.setenv("SFCDC_VANISH_ROWS", "2")
    user = ids(org.org, "User")[0]
    with org.org.transaction() as work:
        for each in ids(org.org, "Account"):
            work.update("Account", each, {"OwnerId": user})
    a_day_later(org)
    living = {each for each, row in org.rows("AccountShare").items() if not row["_is_deleted"]}
    assert living == set(ids(org.org, "AccountShare"))


def thirty_members_less(pipeline: EmulatedPipeline) -> list[str]:
    """Members of campaigns are deleted at once, and their Ids returned."""
    gone = ids(pipeline.org, "CampaignMember")[:30]
    with pipeline.org.transaction() as work:
        for each in gone:
            work.delete("CampaignMember", each)
    return gone


def test_a_currency_that_the_org_lists_as_deleted_and_only_deactivated_stays_with_its_rates(
    org: EmulatedPipeline,
) -> None:
    """fivetran: getDeleted lists a deactivated CurrencyType as deleted."""
    inactive, *_ = ids(org.org, "CurrencyType")
    changed, gone, *_ = ids(org.org, "DatedConversionRate")
    with org.org.transaction() as work:
        work.update("CurrencyType", inactive, {"IsActive": False})
        work.update("DatedConversionRate", changed, {"ConversionRate": 1.25})
        work.delete("DatedConversionRate", gone)
    now = datetime.fromtimestamp(org.org.clock() / 1000 + 60, UTC)
    with connect(load_settings()) as connected:
        assert inactive in deleted_since(connected.session, "CurrencyType", now - timedelta(hours=1), now)
    a_day_later(org)
    currency, rates = org.rows("CurrencyType")[inactive], org.rows("DatedConversionRate")
    assert (currency["IsActive"], currency["_is_deleted"]) == (False, False)
    assert rates[changed]["ConversionRate"] == 1.25
    assert rates[gone]["_is_deleted"]


def a_day_later(pipeline: EmulatedPipeline, hours: float = 25) -> None:
    """What is looked at once a day was looked at, and what was found is applied."""
    pipeline.org.clock.sleep(int(hours * 3600))
    with connect(load_settings()) as connected:
        reader = PolledReader(Warehouse(str(pipeline.warehouse)), connected)
        for _ in range(6):
            reader.land(TICK)
    for _ in range(2):
        pipeline.sync()
        pipeline.org.clock.sleep(1000)
