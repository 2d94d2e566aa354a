"""Channels are read side by side: one that is gone, quiet or broken holds up no other, nor what has landed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets import open_cut
from sfcdc_assets.apply.record_cut import AHEAD
from sfcdc_assets.cli.local_dagster import channel_turn, housekeeping
from sfcdc_assets.cli.local_dagster.channel_turn import UnexpectedFailure
from sfcdc_assets.cli.local_dagster.drive import SeveralFailures, sync_channels
from sfcdc_assets.cli.syncing.verify_topics import compare_topics
from sfcdc_assets.cli.verify import verify_entities
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.errors import EntitiesLag
from sfcdc_assets.lake.tables.consistent_cuts import cuts
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.landing.response_waits import ResponseWaits
from sfcdc_assets.orchestration.jobs import SNAPSHOT, SYNC
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.progress import Fact, StreamAwaited, observing
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.salesforce.errors import LoginRefused, UnexpectedAnswer
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process
from sfcdc_assets_tests.pipeline.story import RETRIEVE, Requests

pytestmark = pytest.mark.slow

SECOND = "/data/Second__chn"
GONE, ALSO_GONE = "/event/Gone__e", "/event/Also_Gone__e"
LIMIT = "sfdc.platform.eventbus.grpc.subscription.limit.exceeded"


@pytest.fixture(autouse=True)
def in_this_process() -> object:
    with batches_in_this_process():
        yield


@pytest.fixture
def pipeline(make_pipeline: Callable[..., EmulatedPipeline]) -> EmulatedPipeline:
    """One that was never run."""
    return make_pipeline("Account", records=3)


def change(pipeline: EmulatedPipeline, name: str) -> None:
    with pipeline.org.transaction() as one:
        one.create("Account", {"Name": name})


def sync(pipeline: EmulatedPipeline, *, until_caught_up: bool = True) -> list[str]:
    said: list[str] = []
    sync_channels(pipeline.instance, until_caught_up=until_caught_up, report=said.append)
    return said


def test_a_sync_over_channels_that_were_open_counts_what_it_landed_itself(pipeline: EmulatedPipeline) -> None:
    with OpenChannels(forgotten_seconds=math.inf) as channels:

        def landed() -> list[str]:
            said: list[str] = []
            sync_channels(pipeline.instance, until_caught_up=True, report=said.append, channels=channels)
            return [line for line in said if "by this sync" in line]

        change(pipeline, "first")
        assert "1 event landed" in landed()[-1]
        assert "0 events landed" in landed()[-1]


@contextmanager
def simulated_seconds(at_most: float) -> Iterator[None]:
    """Fail if more time than that passes, by the clock of org and client."""
    began = clock.current().monotonic()
    yield
    assert clock.current().monotonic() - began <= at_most


@pytest.mark.parametrize("channels", [f"{GONE},{CHANNEL}", f"{CHANNEL},{GONE}"])
def test_a_channel_that_does_not_exist_holds_up_no_other_and_is_named_at_the_end(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, channels: str
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", channels)
    change(pipeline, "new")
    with pytest.raises(SfcdcError, match="Gone__e"):
        sync(pipeline)
    pipeline.assert_equal_to_the_org()
    assert len(pipeline.rows("Account")) == 4


def test_a_channel_whose_members_cannot_be_asked_is_named_and_the_objects_of_the_others_are_copied(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", "Contact", records=3)
    pipeline.org.selected_entities.remove("Contact")
    pipeline.org.channels.create("Second__chn")
    pipeline.org.channels.add_member("Second__chn", "Contact")
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},{SECOND}")
    listed, is_away = OrgConnection.members, True

    def members(connected: OrgConnection, channel: str) -> ChannelMembers | None:
        if channel == SECOND and is_away:
            raise UnexpectedAnswer("https://org/tooling/query/", "it is not JSON")
        return listed(connected, channel)

    monkeypatch.setattr(OrgConnection, "members", members)
    with pytest.raises(UnexpectedAnswer, match="it is not JSON"):
        sync(pipeline)
    pipeline.assert_equal_to_the_org(["Account"])
    is_away = False
    sync(pipeline)
    pipeline.assert_equal_to_the_org()


def test_what_a_channel_failed_with_is_said_at_once_while_others_are_still_read(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"{GONE},{CHANNEL}")
    change(pipeline, "new")
    said: list[str] = []
    with pytest.raises(SfcdcError) as failed:
        sync_channels(pipeline.instance, until_caught_up=True, report=said.append)
    at = [number for number, line in enumerate(said) if " ".join(str(failed.value).split()) in line]
    last_done = max(number for number, line in enumerate(said) if line.startswith(f"{CHANNEL}: "))
    assert len(at) == 1
    assert at[0] < last_done
    assert "other channels go on" in said[at[0]]


def test_each_failure_has_its_own_line(pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"{GONE},{ALSO_GONE},{CHANNEL}")
    with pytest.raises(SeveralFailures) as failed:
        sync(pipeline)
    first, *lines = str(failed.value).splitlines()
    assert first == "2 failures; all else is done."
    assert [GONE in lines[0], ALSO_GONE in lines[1]] == [True, True]
    pipeline.assert_equal_to_the_org()


def test_an_error_that_is_not_ours_stays_with_its_channel(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"{GONE},{CHANNEL}")
    land = ChannelReader.land

    def broken(reader: ChannelReader, timeouts: PollTimeouts) -> LandingReport:
        if reader._channel == GONE:
            raise ZeroDivisionError("of the test")
        return land(reader, timeouts)

    monkeypatch.setattr(ChannelReader, "land", broken)
    change(pipeline, "new")
    with pytest.raises(UnexpectedFailure, match=f"{GONE}.*ZeroDivisionError: of the test"):
        sync(pipeline)
    pipeline.assert_equal_to_the_org()


@pytest.mark.parametrize("first", [CHANNEL, SECOND])
def test_what_dagster_itself_fails_with_stays_with_its_channel(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    pipeline = make_pipeline("Account", records=2)
    pipeline.org.channels.create("Second__chn")
    pipeline.org.channels.add_member("Second__chn", "Contact")
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},{SECOND}")
    run_job, of_account = channel_turn.run_job, ids(pipeline.org, "Account")[0]
    with pipeline.org.transaction() as both:
        both.update("Account", of_account, {"Name": "new"})
        both.update("Contact", ids(pipeline.org, "Contact")[0], {"LastName": "new"})

    def locked(instance: object, job: str, tags: Mapping[str, str], *rest: Any) -> object:
        if first in str(tags):
            raise OSError("database is locked")
        return run_job(instance, job, tags, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(channel_turn, "run_job", locked)
    with pytest.raises(UnexpectedFailure, match=f"{first}.*database is locked"):
        sync(pipeline)
    other = "Contact" if first == CHANNEL else "Account"
    pipeline.assert_equal_to_the_org([other])


def test_what_dagster_itself_fails_with_while_files_are_packed_keeps_no_view_from_being_written(
    synced: EmulatedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> str:
        raise OSError("database is locked")

    views = tmp_path / "views.duckdb"
    monkeypatch.setenv("SFCDC_VIEWS_FILE", str(views))
    monkeypatch.setattr(housekeeping, "why_not_packed", locked)
    with pytest.raises(UnexpectedFailure, match=r"Small files.*database is locked"):
        sync(synced)
    assert views.exists()


@pytest.mark.parametrize("code", ["service.unavailable", "service.auth.error"])
def test_what_has_landed_is_applied_by_a_sync_whose_stream_fails_or_refuses_the_token(
    synced: EmulatedPipeline, code: str
) -> None:
    change(synced, "landed")
    synced.sensor_tick()
    clock.sleep(20)
    synced.sensor_tick()
    assert len(synced.rows("Account")) == 3
    synced.server.faults.arm(Fault.CALL_REFUSED, 1_000, code=code)
    with pytest.raises(SfcdcError):
        sync(synced)
    assert len(synced.rows("Account")) == 4


def test_copies_and_read_backs_that_failed_before_go_on_while_the_stream_fails(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    pipeline = make_pipeline("Account", "Contact", records=3)
    pipeline.sync()
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    with pipeline.org.transaction() as one:
        one.update("Account", ids(pipeline.org, "Account")[0], {"Phone": "12345"})
    pipeline.org.selected_entities.remove("Contact")
    with pipeline.org.transaction() as one:
        one.update("Contact", ids(pipeline.org, "Contact")[0], {"Phone": "67890"})
    pipeline.org.selected_entities.append("Contact")
    pipeline.server.rest_faults.arm(RestFault.UNAVAILABLE, 1_000, path=RETRIEVE)
    sync(pipeline)  # Contact was off its channel, and is read again ten minutes later
    assert {bool(row["_in_doubt"]) for row in pipeline.rows("Account").values()} == {True, False}
    pipeline.server.rest_faults.disarm(RestFault.UNAVAILABLE)
    pipeline.server.faults.arm(Fault.CALL_REFUSED, 10_000, code="service.unavailable")
    clock.sleep(1_200)
    with pytest.raises(SfcdcError, match=r"service\.unavailable"):
        sync(pipeline)
    pipeline.assert_equal_to_the_org()


@pytest.mark.parametrize("by", ["a sync", "the sensor"])
def test_objects_are_copied_although_the_stream_fails_that_never_said_anything(
    make_pipeline: Callable[..., EmulatedPipeline], by: str
) -> None:
    pipeline = make_pipeline("Account", "Contact", records=3)
    pipeline.org.hidden_objects.add("Contact")
    sync(pipeline)  # nothing changes, and no keepalive is waited for
    pipeline.org.hidden_objects.clear()
    clock.sleep(7_200)
    pipeline.server.faults.arm(Fault.CALL_REFUSED, 10_000, code="service.unavailable")
    if by == "a sync":
        for _ in range(2):  # once more when streams follow the rights that were given back
            with pytest.raises(SfcdcError, match=r"service\.unavailable"):
                sync(pipeline)
            clock.sleep(700)
        pipeline.assert_equal_to_the_org()
    else:
        found = pipeline.sensor_tick()
        assert [request.job_name for request in found.run_requests or ()] == [ASSETS.name(SNAPSHOT)]


def test_while_the_login_is_refused_nothing_is_tried_twice_and_what_has_landed_is_applied_by_the_next_sync(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever works on the tables makes sure whose they are, and another wrong password locks the user out."""
    change(synced, "landed")
    synced.sensor_tick()
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_CLIENT_SECRET", "wr0ng-s3cret")
        requests = Requests(synced.server, patch)
        with pytest.raises(LoginRefused):
            sync(synced)
        assert sum(each.endswith("/token") for each in requests.take_all()) == 1
    assert len(synced.rows("Account")) == 3
    sync(synced)
    synced.assert_equal_to_the_org()


def test_the_sensor_asks_for_a_run_over_what_has_landed_while_its_stream_fails(synced: EmulatedPipeline) -> None:
    change(synced, "landed")
    synced.sensor_tick()
    clock.sleep(20)
    synced.sensor_tick()
    synced.server.faults.arm(Fault.STREAM_RESET, 1)
    synced.server.faults.arm(Fault.CALL_REFUSED, 1_000, code=LIMIT)
    change(synced, "not delivered")
    for _ in range(10):
        clock.sleep(60)
        found = synced.sensor_tick()
        assert [request.job_name for request in found.run_requests or ()] == [ASSETS.name(SYNC)]


def test_the_first_sync_of_an_org_in_which_nothing_changes_waits_for_no_keepalive(pipeline: EmulatedPipeline) -> None:
    with simulated_seconds(120):
        sync(pipeline, until_caught_up=False)
    pipeline.assert_equal_to_the_org()


def test_the_first_cut_of_an_org_in_which_nothing_changes_waits_for_no_keepalive_and_says_so(
    pipeline: EmulatedPipeline,
) -> None:
    with simulated_seconds(60):
        said = sync(pipeline)
    assert any("first consistent cut" in line for line in said)
    pipeline.assert_equal_to_the_org()
    (cut,) = cuts(Warehouse(str(pipeline.warehouse)), CHANNEL)
    assert [(each.entity, each.reason) for each in cut.lagging] == [("Account", AHEAD)]
    assert "as it was read" in str(cut.lagging[0])
    assert open_cut(str(pipeline.warehouse)).arrow("Account").num_rows == 3
    with pytest.raises(EntitiesLag):
        open_cut(str(pipeline.warehouse), strict=True).arrow("Account")
    change(pipeline, "heard of")
    with simulated_seconds(60):
        sync(pipeline)
    assert cuts(Warehouse(str(pipeline.warehouse)), CHANNEL)[0].lagging == ()


def test_a_first_cut_that_was_not_proven_is_proven_by_the_streams_keepalive(pipeline: EmulatedPipeline) -> None:
    sync(pipeline)
    sync(pipeline)
    proven, first = cuts(Warehouse(str(pipeline.warehouse)), CHANNEL)
    assert (proven.lagging, proven.tables) == ((), first.tables)


def test_a_wait_that_is_not_short_says_for_what_and_until_when(synced: EmulatedPipeline) -> None:
    facts: list[Fact] = []
    with observing(facts.append):
        change(synced, "last")
        sync(synced)
    awaited = [fact for fact in facts if isinstance(fact, StreamAwaited)]
    assert awaited
    assert any(fact.what for fact in awaited)
    assert awaited[-1].what is None
    assert all(fact.until_ms > 0 for fact in awaited if fact.what)


def test_a_wait_is_reported_two_seconds_after_it_began_and_not_where_it_is_shorter() -> None:
    waits = ResponseWaits(CHANNEL, 10.0, is_placed_by_an_answer=False)
    assert 0.0 < waits.until_reported(30.0) <= 2.0
    assert waits.until_reported(1.0) == 1.0


def test_a_comparison_of_a_topic_says_what_it_waits_for(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = synced.server.cometd.topics
    topics.push_topics.create({"Name": "Quiet", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 52.0})
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},/topic/Quiet")
    sync(synced)
    assert "/topic/Quiet: waits for " in sfcdc("verify", "--topic", "Quiet").stderr


def test_a_quiet_topic_and_a_quiet_generic_channel_are_not_waited_for(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a channel that nobody writes to the first answer comes after up to 110 seconds (CometD's held connect)."""
    topics = synced.server.cometd.topics
    topics.channels.create({"Name": "/u/Quiet"})
    topics.push_topics.create({"Name": "Quiet", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 52.0})
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},/u/Quiet,/topic/Quiet,/event/Order_Event__e")
    sync(synced)  # a channel that is new has no place in its stream before its first answer
    change(synced, "new")
    with simulated_seconds(60):
        sync(synced)
    synced.assert_equal_to_the_org()


@pytest.mark.parametrize("preset", ["EARLIEST", "LATEST"])
def test_a_first_sync_waits_for_no_answer_of_a_new_topic_and_loses_nothing_of_what_it_says_later(
    pipeline: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    topics = pipeline.server.cometd.topics
    topics.push_topics.create({"Name": "Quiet", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 52.0})
    monkeypatch.setenv("SFCDC_CHANNELS", "/topic/Quiet")
    monkeypatch.setenv("SFCDC_REPLAY_PRESET", preset)
    for _ in range(2):
        with simulated_seconds(60):
            sync(pipeline)
    change(pipeline, "said between two syncs")
    with simulated_seconds(60):
        sync(pipeline)
    landed = EventTable.open(Warehouse(str(pipeline.warehouse)), "/topic/Quiet")
    assert landed is not None
    assert landed.table.scan(["Name"])["Name"].to_pylist() == ["said between two syncs"]


def test_a_comparison_waits_for_no_quiet_topic_and_no_quiet_generic_channel(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = synced.server.cometd.topics
    topics.channels.create({"Name": "/u/Quiet"})
    topics.push_topics.create({"Name": "Quiet", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 52.0})
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},/u/Quiet,/topic/Quiet")
    change(synced, "before")
    sync(synced)
    change(synced, "compared only after a sync")
    with simulated_seconds(60):
        (report,) = verify_entities([], lambda _line: None)
        (of_topic,) = compare_topics([])
    assert report.is_equal
    assert report.compared == 5
    assert of_topic.in_org == 5


def test_a_sync_of_an_org_in_which_nothing_changed_since_its_cut_waits_for_no_keepalive(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new cut needs the stream's word that nothing older is on its way; one that stands already needs nothing."""
    topics = synced.server.cometd.topics
    topics.channels.create({"Name": "/u/Quiet"})
    topics.push_topics.create({"Name": "Quiet", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 52.0})
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},/u/Quiet,/topic/Quiet")
    sync(synced)
    sync(synced)  # the first cut waits for nothing
    before = cuts(Warehouse(str(synced.warehouse)), CHANNEL)
    assert before[0].lagging == ()
    for _ in range(3):
        clock.sleep(3_600)
        with simulated_seconds(60):
            sync(synced)
    assert cuts(Warehouse(str(synced.warehouse)), CHANNEL) == before
    synced.assert_equal_to_the_org()
