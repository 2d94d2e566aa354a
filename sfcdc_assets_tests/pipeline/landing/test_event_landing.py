"""Channels that carry no change events land in append-only tables of their own: typed, once, resumable, loud."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.errors import ReplayIdCorruptedError
from sfcdc_assets.emulator.streaming.notifications import NotificationLog
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.event_table import EventTable, event_tables
from sfcdc_assets.lake.tables.lost_checkpoints import lost_checkpoints
from sfcdc_assets.landing.channel_reader import ChannelReader, landing_of
from sfcdc_assets.landing.event_landing import EventLanding
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.channel_kinds import APPEND_ONLY, folder_of, table_of
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.errors import ChannelNotFound
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream, stream

GENERIC = "/u/notifications/orders"
TOPIC = "/topic/Energetic"
FILTERED = "/topic/Energetic?Industry='Energy'&BillingCity='Oslo'"
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=20.0)
SCHEMA = """
channel = "/u/notifications/orders"
[columns]
order_id = "string"
amount = "double"
placed_at = "timestamp"
city = { type = "string", path = "address.city" }
"""


@pytest.fixture
def org(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "orders.toml").write_text(SCHEMA)
    monkeypatch.setenv("SFCDC_CHANNEL_SCHEMAS", str(folder))
    with stream(tmp_path, records=5) as opened:
        topics = opened.server.cometd.topics
        topics.channels.create({"Name": GENERIC})
        topics.push_topics.create(
            {
                "Name": "Energetic",
                "Query": "SELECT Id, Name, Industry, BillingCity, AnnualRevenue FROM Account",
                "ApiVersion": 52.0,
            }
        )
        yield opened


def push(org: Stream, *payloads: object, channel: str = GENERIC) -> None:
    """As by REST: the clients whose connects are held have them at once."""
    channels = org.server.cometd.topics.channels
    found = next(each for each in channels.all() if each.name == channel)
    texts = [each if isinstance(each, str) else json.dumps(each) for each in payloads]
    channels.push(found.id, [{"payload": text} for text in texts], [])
    org.server.bus.wake()


def land(org: Stream, channel: str) -> LandingReport:
    """One reading by a process of its own, which ends without saying goodbye."""
    reader = ChannelReader(org.warehouse, org.connected, channel, SETTLE)
    try:
        return reader.land(QUICK)
    finally:
        reader.drop()


def rows(org: Stream, channel: str) -> list[dict[str, Any]]:
    return landed_rows(org.warehouse, channel)


def test_json_that_is_pushed_becomes_columns_and_what_does_not_fit_is_kept_and_said(org: Stream) -> None:
    push(
        org,
        {"order_id": "A1", "amount": 9.5, "placed_at": "2024-01-02T03:04:05Z", "address": {"city": "Oslo", "zip": 1}},
        {"order_id": "A2", "amount": "many"},
        "no JSON at all",
    )
    report = land(org, GENERIC)
    assert (report.count, report.position, report.is_complete) == (3, 3, True)
    whole, misfit, text = rows(org, GENERIC)
    assert (whole["order_id"], whole["amount"], whole["city"]) == ("A1", 9.5, "Oslo")
    assert whole["placed_at"].isoformat() == "2024-01-02T03:04:05+00:00"
    assert json.loads(whole["_rescued_data"]) == {"address.zip": 1}
    assert (misfit["amount"], json.loads(misfit["_rescued_data"])) == (None, {"amount": "many"})
    assert "amount is a double" in misfit["_problem"]
    assert (text["payload"], text["_problem"]) == ("no JSON at all", "the payload is not a JSON object")
    assert [row["position"] for row in (whole, misfit, text)] == [1, 2, 3]
    assert all(row["replay_id"].isdigit() and row["created_date"] and row["received_at"] for row in (whole, text))


def test_the_same_text_pushed_twice_is_two_events_and_one_that_comes_again_is_one(org: Stream) -> None:
    push(org, "again", "again")
    assert land(org, GENERIC).count == 2
    assert land(org, GENERIC).count == 0
    push(org, "more")
    assert land(org, GENERIC).count == 1
    assert [row["payload"] for row in rows(org, GENERIC)] == ["again", "again", "more"]
    assert [row["position"] for row in rows(org, GENERIC)] == [1, 2, 3]


def test_rows_position_and_the_place_to_resume_from_are_one_commit(org: Stream) -> None:
    push(org, "one", "two")
    land(org, GENERIC)
    log = Path(org.warehouse.uri(table_of(GENERIC))) / "_delta_log"
    commits = [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(log.glob("*.json"))]
    (landing,) = [actions for actions in commits if any("add" in action for action in actions)]
    versions = {action["txn"]["appId"]: action["txn"]["version"] for action in landing if "txn" in action}
    assert versions[GENERIC] == 2
    assert versions[f"{GENERIC}#replay_id"] > 0


def test_of_two_processes_that_land_at_once_one_commits_and_the_other_starts_again(org: Stream) -> None:
    first, second = (landing_of(org.warehouse, org.connected, GENERIC) for _ in range(2))
    before = first.begin(first.checkpoint()[0], "EARLIEST", "cometd")
    event = DeliveredEvent("e1", "", b'{"event":{"replayId":1},"payload":"x"}', b"1", org.clock())
    other = event._replace(event_id="e2", replay_id=b"2")
    first.commit(before, [event], ResumePoint(b"1"), complete=False, report=LandingReport(GENERIC))
    with pytest.raises(ConcurrentCommit):
        second.commit(before, [event, other], ResumePoint(b"2"), complete=False, report=LandingReport(GENERIC))
    checkpoint, _ = second.checkpoint()
    second.commit(checkpoint, [event, other], ResumePoint(b"2"), complete=False, report=LandingReport(GENERIC))
    assert [row["event_id"] for row in rows(org, GENERIC)] == ["e1", "e2"]


def test_a_crash_between_the_columns_and_the_rows_loses_nothing(org: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    push(org, {"order_id": "A1"})
    with monkeypatch.context() as patch:
        patch.setattr(EventTable, "commit", _dies_when_there_are_rows(EventTable.commit))
        with pytest.raises(RuntimeError):
            land(org, GENERIC)
    assert rows(org, GENERIC) == []
    assert land(org, GENERIC).count == 1
    assert [row["order_id"] for row in rows(org, GENERIC)] == ["A1"]


def _dies_when_there_are_rows(commit: Callable[..., None]) -> Callable[..., None]:
    def dying(table: EventTable, landed: Any, *others: Any) -> None:
        if landed.num_rows:
            raise RuntimeError("killed")
        commit(table, landed, *others)

    return dying


def test_a_push_topics_notifications_are_typed_by_describe_and_a_filtered_one_is_a_channel_of_its_own(
    org: Stream,
) -> None:
    land(org, TOPIC)
    land(org, FILTERED)
    org.update(0, Industry="Energy", AnnualRevenue=12)
    org.update(1, Industry="Banking", BillingCity="Oslo")
    org.update(2, Industry="Banking", BillingCity="Bergen")
    with org.org.transaction() as work:
        work.delete("Account", org.accounts[2])
    assert land(org, TOPIC).count == 4
    found = rows(org, TOPIC)
    assert [row["event_type"] for row in found] == ["updated", "updated", "updated", "deleted"]
    assert found[0]["AnnualRevenue"] == 12.0
    assert [row["Id"] for row in found] == [*org.accounts[:3], org.accounts[2]]
    assert land(org, FILTERED).count == 2
    assert [row["Id"] for row in rows(org, FILTERED)] == org.accounts[:2]
    assert {channel for channel, _ in event_tables(org.warehouse)} == {TOPIC, FILTERED}


def _only_presets(start: Callable[..., int]) -> Callable[..., int]:
    def refusing(log: NotificationLog, place: int) -> int:
        if place > 0:
            raise ReplayIdCorruptedError(str(place).encode())
        return start(log, place)

    return refusing


def test_a_refused_replay_id_is_said_and_what_is_still_kept_is_landed_once(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(org, "old")
    land(org, GENERIC)
    org.clock.advance(20 * 3_600_000)
    push(org, "kept")
    land(org, GENERIC)
    push(org, "new")
    with monkeypatch.context() as patch:
        patch.setattr(NotificationLog, "start", _only_presets(NotificationLog.start))
        assert "you provided was invalid" in (land(org, GENERIC).lost_checkpoint or "")
    assert [(row["position"], row["payload"]) for row in rows(org, GENERIC)] == [(1, "old"), (2, "kept"), (4, "new")]


def test_a_place_that_is_older_than_what_is_kept_is_lost_loudly_and_the_stream_goes_on_at_its_earliest_event(
    org: Stream,
) -> None:
    push(org, "first", "second")
    land(org, GENERIC)
    push(org, "never landed")
    org.clock.advance(25 * 3_600_000)
    push(org, "third")
    report = land(org, GENERIC)
    assert "you provided was invalid" in (report.lost_checkpoint or "")
    assert [(row["position"], row["payload"]) for row in rows(org, GENERIC)] == [
        (1, "first"),
        (2, "second"),
        (4, "third"),
    ]
    (lost,) = lost_checkpoints(org.warehouse, GENERIC)
    assert lost.position == 3
    assert land(org, GENERIC).lost_checkpoint is None


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("/topic/Nowhere", "404: Unknown channel"),
        ("/u/Nowhere", "404: Unknown channel"),
        ("/topic/Energetic?Nowhere='x'", "Query fields Nowhere do not exist on the topic entity.*single quotes"),
        ("/event/Nowhere__e", "topic /event/Nowhere__e not found"),
        ("/event/Low_Ink__e", "are read over CometD"),
    ],
)
def test_a_channel_that_is_not_there_is_refused_in_the_orgs_words_and_leaves_nothing_behind(
    org: Stream, channel: str, said: str
) -> None:
    with pytest.raises(ChannelNotFound, match=said):
        land(org, channel)
    assert not org.root.exists() or not [each for kind in APPEND_ONLY for each in org.warehouse.entities(kind.value)]
    assert [each.name for each in org.server.cometd.topics.channels.all()] == [GENERIC]


def test_a_tick_adds_the_partition_reports_the_table_and_the_check_and_asks_for_no_run(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"{GENERIC},{TOPIC}")
    monkeypatch.setenv("SFCDC_SAMPLE_ROWS", "10")
    instance = KnownPartitions()
    with OpenChannels(forgotten_seconds=float("inf")) as channels:
        opened = channels.of(GENERIC, org.warehouse, load_settings(), lambda: connect(load_settings()))
        push(org, {"order_id": "A1", "amount": 1}, {"order_id": "A2", "amount": "x"})
        first = tick(ASSETS, cast(dg.DagsterInstance, instance), GENERIC, opened, QUICK)
        (added,) = first.dynamic_partitions_requests or ()
        instance.keys += added.partition_keys
        instance.is_there = False  # a tick that lands nothing asks Dagster for nothing
        again = tick(ASSETS, cast(dg.DagsterInstance, instance), GENERIC, opened, QUICK)
    materialization, evaluation = first.asset_events
    assert isinstance(materialization, dg.AssetMaterialization)
    assert isinstance(evaluation, dg.AssetCheckEvaluation)
    assert materialization.partition == folder_of(GENERIC) == instance.keys[0]
    figures = {name: value.value for name, value in materialization.metadata.items()}
    assert (figures["channel"], figures["rows"], figures["rows_with_problems"]) == (GENERIC, 2, 1)
    assert [row.data["position"] for row in figures["sample"].records] == [2, 1], "the newest first"
    assert not evaluation.passed
    assert not first.run_requests
    assert (again.asset_events, again.dynamic_partitions_requests) == ([], [])


class KnownPartitions:
    """What a tick asks of Dagster's instance."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.is_there = True

    def get_dynamic_partitions(self, name: str) -> list[str]:
        assert self.is_there
        assert name == "salesforce_generic_channel"
        return self.keys


def test_settings_choose_the_transport_and_events_that_need_cometd_get_it(org: Stream) -> None:
    assert load_settings().transport == "pubsub"
    for channel, name in ((GENERIC, "cometd"), (TOPIC, "cometd"), ("/event/Order__e", "pubsub")):
        transport = org.connected.new_transport(channel)
        assert transport.name == name
        transport.close()


def test_the_landing_of_each_kind_is_known_by_the_channels_name(org: Stream) -> None:
    assert isinstance(landing_of(org.warehouse, org.connected, TOPIC), EventLanding)
    with connect(load_settings()) as again:
        assert again.payload_schemas[GENERIC].columns[0].name == "order_id"
