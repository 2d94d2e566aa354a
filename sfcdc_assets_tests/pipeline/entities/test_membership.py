"""What feeds an entity is taken away and given back: what may have been missed is suspect, is read again, and heals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfcdc_assets.apply.record_cut import OFF_CHANNEL
from sfcdc_assets.cli.main import app
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.membership import Conclusion, conclusion, note_suspect_entity
from sfcdc_assets.lake.tables.channel_members import noted_members
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.channel_members import Member
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import copied, keep
from sfcdc_assets_tests.pipeline.story import Requests, ledger

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact")
SALES = "/data/Sales__chn"
SETTLED_SECONDS = 601.0
THEN, LATER = datetime(2026, 3, 1, 8, tzinfo=UTC), datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_else_finds_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """No audit, and lines that are not broken."""
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "0")
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture(scope="module")
def small_day_zero(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an org of few records, and a warehouse that equals it."""
    return keep(tmp_path_factory.mktemp("members") / "org", ENTITIES, records=6)


@pytest.fixture
def synced(small_day_zero: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    """A pipeline whose tables equal the org."""
    with copied(small_day_zero, tmp_path / "org", monkeypatch) as pipeline:
        yield pipeline


@pytest.fixture
def filtered(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    """The same over a custom channel, of which nothing is filtered yet."""
    pipeline = make_pipeline(*ENTITIES, records=6)
    monkeypatch.setenv("SFCDC_CHANNELS", SALES)
    pipeline.org.channels.create("Sales__chn")
    for entity in ENTITIES:
        pipeline.org.channels.add_member("Sales__chn", entity)
    pipeline.sync()
    return pipeline


def change(pipeline: EmulatedPipeline, values: dict[str, Any]) -> str:
    """Change the first account; its id."""
    first = ids(pipeline.org, "Account")[0]
    with pipeline.org.transaction() as work:
        work.update("Account", first, values)
    return first


def change_without_event(pipeline: EmulatedPipeline) -> None:
    """What happens while nothing says so: an update, a delete, a create."""
    first, second = ids(pipeline.org, "Account")[:2]
    with pipeline.org.transaction() as work:
        work.update("Account", first, {"Site": "without an event", "Rating": "Cold"})
        work.delete("Account", second)
        work.create("Account", {"Name": "without an event"})


def settle(pipeline: EmulatedPipeline) -> None:
    """Let streams follow what was changed in Setup, and sync."""
    clock.sleep(SETTLED_SECONDS)
    pipeline.sync()


def opened(pipeline: EmulatedPipeline) -> list[tuple[str, str]]:
    """The reasons in the account's ledger, each with its status."""
    return sorted((entry["reason"], entry["status"]) for entry in ledger(pipeline, "Account"))


def member_of(pipeline: EmulatedPipeline, channel: str = "Sales__chn") -> str:
    """The id of the account's member."""
    (found,) = [each for each in pipeline.org.channels.members() if (each.channel, each.entity) == (channel, "Account")]
    return found.id


def status() -> str:
    return " ".join(CliRunner().invoke(app, ["status"]).stdout.split())


def test_an_object_that_is_off_its_channel_is_suspect_until_it_is_back_and_then_read_again(
    synced: EmulatedPipeline,
) -> None:
    synced.org.selected_entities.remove("Account")
    change_without_event(synced)
    with synced.org.transaction() as work:
        work.update("Contact", ids(synced.org, "Contact")[0], {"Department": "goes on"})
    synced.sync()
    assert opened(synced) == [("off_channel", "open")]
    assert all(row["_in_doubt"] for row in synced.rows("Account").values())
    assert "Account: it is not on the channel any more" in status()
    synced.assert_equal_to_the_org(["Contact"])
    newest = max(synced.scan("consistent_cuts"), key=lambda cut: (cut["position"], cut["applied_at"]))
    (lagging,) = newest["lagging"]
    assert (lagging["entity"], lagging["reason"]) == ("Account", OFF_CHANNEL), "cuts go on, and say what lags"
    assert 0 <= lagging["position"] < newest["position"], "it stands where it was last fed"
    assert dict(newest["tables"])["current_state/Account"] == synced.table("current_state/Account").version()
    snapshots = synced.rows("Account")
    settle(synced)
    assert synced.rows("Account") == snapshots, "a copy taken now would be out of date with the next change"
    synced.org.selected_entities.append("Account")
    change(synced, {"Phone": "on again"})
    synced.sync()
    assert opened(synced) == [("missed_events", "open"), ("off_channel", "open")]
    settle(synced)
    assert opened(synced) == [("missed_events", "healed"), ("off_channel", "healed")]
    synced.assert_equal_to_the_org()
    assert "not on the channel" not in status()


def test_off_and_on_again_while_nobody_looked_shows_by_the_members_id(synced: EmulatedPipeline) -> None:
    synced.org.selected_entities.remove("Account")
    change_without_event(synced)
    synced.org.selected_entities.append("Account")
    change(synced, {"Phone": "on again"})
    synced.sync()
    assert opened(synced) == [("missed_events", "open")]
    (entry,) = ledger(synced, "Account")
    assert "taken off the channel and put back" in entry["detail"]
    assert all(row["_in_doubt"] for row in synced.rows("Account").values())
    settle(synced)
    assert opened(synced) == [("missed_events", "healed")]
    synced.assert_equal_to_the_org()


def test_an_object_that_goes_and_comes_again_is_read_ten_minutes_after_it_came_back_last(
    synced: EmulatedPipeline,
) -> None:
    """No event has come between the two, which are at one place of the stream."""
    warehouse, began = Warehouse(str(synced.warehouse)), clock.now_ms()

    def is_read(minutes: int) -> bool:
        (state,) = entity_states(warehouse, {"Account": CHANNEL}, began + minutes * 60_000)
        return state.needs_snapshot

    note_suspect_entity(warehouse, "Account", CHANNEL, Reason.MISSED_EVENTS, "it was off", began)
    assert (is_read(9), is_read(10)) == (False, True)
    note_suspect_entity(warehouse, "Account", CHANNEL, Reason.MISSED_EVENTS, "it was off once more", began + 5 * 60_000)
    assert (is_read(14), is_read(15)) == (False, True), "streams may not follow the selection before"
    clock.sleep(300)
    settle(synced)
    assert opened(synced) == [("missed_events", "healed")] * 2
    synced.assert_equal_to_the_org()


def test_a_snapshot_that_is_taken_while_the_object_is_off_does_not_end_the_entry(synced: EmulatedPipeline) -> None:
    synced.org.selected_entities.remove("Account")
    synced.sync()
    run = synced.launch("snapshot", "Account")
    assert run.success, synced.failure(run)
    synced.sync()
    assert ("off_channel", "open") in opened(synced)
    change_without_event(synced)
    synced.org.selected_entities.append("Account")
    synced.sync()
    settle(synced)
    assert {status for _, status in opened(synced)} == {"healed"}
    synced.assert_equal_to_the_org()


def test_a_filter_that_is_removed_leaves_an_entity_that_is_read_again(filtered: EmulatedPipeline) -> None:
    filtered.org.channels.filter_events(member_of(filtered), "Rating = 'Hot'")
    filtered.sync()
    assert opened(filtered) == [], "the audit finds what changes outside a filter, and no copy would stay true"
    change_without_event(filtered)
    filtered.sync()
    clock.sleep(5)
    filtered.org.channels.filter_events(member_of(filtered), None)
    filtered.sync()
    assert opened(filtered) == [("missed_events", "open")]
    assert "Rating = 'Hot'" in ledger(filtered, "Account")[0]["detail"]
    settle(filtered)
    assert opened(filtered) == [("missed_events", "healed")]
    filtered.assert_equal_to_the_org()


def test_a_filter_that_nobody_saw_shows_by_the_time_its_member_was_modified(filtered: EmulatedPipeline) -> None:
    clock.sleep(5)
    filtered.org.channels.filter_events(member_of(filtered), "Rating = 'Hot'")
    change_without_event(filtered)
    filtered.org.channels.filter_events(member_of(filtered), None)
    filtered.sync()
    assert opened(filtered) == [("missed_events", "open")]
    settle(filtered)
    filtered.assert_equal_to_the_org()


def test_a_channel_that_is_deleted_and_made_again_is_read_again(filtered: EmulatedPipeline) -> None:
    (channel,) = filtered.org.channels.all()
    filtered.org.channels.delete(channel.id)
    change_without_event(filtered)
    filtered.org.channels.create("Sales__chn")
    for entity in ENTITIES:
        filtered.org.channels.add_member("Sales__chn", entity)
    filtered.sync()
    assert opened(filtered) == [("missed_events", "open")]
    settle(filtered)
    filtered.assert_equal_to_the_org()


def test_an_entity_that_the_settings_leave_out_for_a_while_is_made_suspect_all_the_same(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_ENTITIES", "CONTACT")
    synced.org.selected_entities.remove("Account")
    change_without_event(synced)
    synced.org.selected_entities.append("Account")
    synced.sync()
    monkeypatch.delenv("SFCDC_ENTITIES")
    settle(synced)
    assert opened(synced) == [("missed_events", "healed")]
    synced.assert_equal_to_the_org()


def test_looking_at_the_members_again_asks_and_writes_nothing_more(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = Requests(synced.server, monkeypatch)
    before = synced.table("channel_members").version()
    synced.sync()
    assert [each for each in requests.take_all() if "tooling" in each] == ["GET /tooling/query/"]
    assert synced.table("channel_members").version() == before


def test_the_org_that_does_not_list_members_tells_it_when_it_does_again(synced: EmulatedPipeline) -> None:
    synced.org.hidden_objects.add("PlatformEventChannelMember")
    synced.org.selected_entities.remove("Account")
    change_without_event(synced)
    synced.sync()
    assert opened(synced) == []
    synced.org.selected_entities.append("Account")
    synced.sync()
    synced.org.hidden_objects.clear()
    synced.sync()
    assert opened(synced) == [("missed_events", "open")]
    settle(synced)
    synced.assert_equal_to_the_org()


def test_the_members_are_noted_with_what_the_org_says_of_them(synced: EmulatedPipeline) -> None:
    noted = noted_members(Warehouse(str(synced.warehouse)), CHANNEL)
    (reported,) = [each for each in synced.org.channels.members() if each.entity == "Account"]
    account = noted["Account"]
    assert account is not None
    assert (account.id[:15], account.filter_expression) == (reported.id[:15], None)
    assert account.created_at == datetime.fromtimestamp(reported.created // 1000, UTC)


def test_a_field_that_is_hidden_and_shown_again_is_read_again(synced: EmulatedPipeline) -> None:
    synced.org.field_security.hide("Account", "Site")
    clock.sleep(86_400)
    change(synced, {"Site": "while it was hidden", "Phone": "1"})
    synced.sync()
    assert synced.rows("Account")[ids(synced.org, "Account")[0]]["Site"] != "while it was hidden"
    synced.org.field_security.show("Account", "Site")
    clock.sleep(86_400)
    with synced.org.transaction() as work:
        work.update("Contact", ids(synced.org, "Contact")[0], {"Department": "so that there is a run"})
    synced.sync()
    assert opened(synced) == [("new_field", "healed")]
    synced.assert_equal_to_the_org()


def test_view_all_that_was_lost_is_noticed_when_the_object_is_described(synced: EmulatedPipeline) -> None:
    synced.org.view_all.withdraw("Account")
    clock.sleep(86_400)
    change(synced, {"Phone": "so that there is a run"})
    synced.sync()
    assert opened(synced) == [("view_all_missing", "open")]
    synced.assert_equal_to_the_org()


def test_view_all_that_an_audit_finds_missing_leads_to_a_read_when_it_is_back(synced: EmulatedPipeline) -> None:
    synced.org.view_all.withdraw("Account")
    assert CliRunner().invoke(app, ["verify", "--entity", "Account"]).exit_code == 1
    assert opened(synced) == [("view_all_missing", "open")]
    synced.org.view_all.give_back("Account")
    settle(synced)
    assert opened(synced) == [("missed_events", "open"), ("view_all_missing", "healed")]
    settle(synced)
    assert opened(synced) == [("missed_events", "healed"), ("view_all_missing", "healed")]
    synced.assert_equal_to_the_org()


@pytest.mark.parametrize(
    ("before", "now", "follows"),
    [
        (Member("1", THEN, THEN), Member("1", THEN, THEN), Conclusion.NOTHING),
        (Member("1", THEN, THEN), None, Conclusion.WAIT),
        (None, None, Conclusion.WAIT),
        (None, Member("1", THEN, THEN), Conclusion.READ_AGAIN),
        (Member("1", THEN, THEN), Member("2", LATER, LATER), Conclusion.READ_AGAIN),
        (Member("1", THEN, THEN), Member("2", None, None), Conclusion.READ_AGAIN),
        (Member("1", THEN, THEN), Member("1", THEN, LATER, "Rating = 'Hot'"), Conclusion.NOTHING),
        (Member("1", THEN, THEN, "Rating = 'Hot'"), Member("1", THEN, LATER), Conclusion.READ_AGAIN),
        (Member("1", THEN, THEN, "A = '1'"), Member("1", THEN, LATER, "B = '2'"), Conclusion.READ_AGAIN),
        (Member("1", THEN, THEN, "A = '1'"), Member("1", THEN, LATER, "A = '1'"), Conclusion.READ_AGAIN),
        (Member("1", THEN, THEN), Member("1", THEN, LATER), Conclusion.READ_AGAIN),
        (Member("1", None, None), Member("1", THEN, LATER), Conclusion.NOTHING),
    ],
)
def test_each_difference_has_its_conclusion(before: Member | None, now: Member | None, follows: Conclusion) -> None:
    assert conclusion(before, now)[0] is follows
