"""PushTopics from the emulated org over CometD into their tables: notifications, what is known of each record, and the
check by the topic's own query. No Dagster and no Spark take part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.event_channels.tables import rebuild_topic as rebuild_topic_module
from sfcdc_assets.event_channels.tables.filter_check import TopicMissing, TopicReport, check_topic, verify_topic
from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.event_channels.tables.rebuild_topic import NoNotifications, rebuild_topic
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.assets.push_topic_state import build_push_topic_state
from sfcdc_assets.orchestration.checks.topics import build_topic_checks
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.errors import ChannelNotPermitted
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import QUIET, EmulatedPipeline

CHANNEL = "/topic/Energy"
QUERY = "SELECT Id, Name, Industry, NumberOfEmployees, SLAExpirationDate__c FROM Account WHERE Industry = 'Energy'"


class Topic:
    """A topic of an org, its channel as it is landed, and the changes that a test makes."""

    def __init__(self, pipeline: EmulatedPipeline, org: OrgConnection, lander: Poller) -> None:
        self.pipeline = pipeline
        self.warehouse = Warehouse(str(pipeline.warehouse))
        self.org = org
        self.lander = lander

    def define(self, query: str = QUERY, name: str = "Energy", **values: Any) -> str:
        topics = self.pipeline.server.cometd.topics.push_topics
        self.topic_id = topics.create({"Name": name, "Query": query, "ApiVersion": 60.0, **values}).id
        return self.topic_id

    def change(self, kind: str, *arguments: Any) -> Any:
        with self.pipeline.org.transaction() as work:
            return getattr(work, kind)("Account", *arguments)

    def land(self) -> None:
        self.lander.land(CHANNEL)

    def fold(self) -> dict[str, dict[str, Any]]:
        """Land and fold; the rows by Id."""
        self.land()
        fold_topic(self.warehouse, CHANNEL)
        return self.rows()

    def rows(self) -> dict[str, dict[str, Any]]:
        state = PushTopicState.open(self.warehouse, "Energy")
        return {row["Id"]: row for row in state.table.rows()} if state else {}

    def check(self) -> TopicReport:
        self.pipeline.org.clock.advance(60_000)
        return check_topic(self.warehouse, self.org, self.lander, CHANNEL, load_settings().visibility_seconds)

    def verify(self) -> TopicReport:
        self.pipeline.org.clock.advance(60_000)
        return verify_topic(self.warehouse, self.org, self.lander, CHANNEL, load_settings().visibility_seconds)


@pytest.fixture
def topic(make_pipeline: Callable[..., EmulatedPipeline]) -> Iterator[Topic]:
    with ExitStack() as opened:
        pipeline = make_pipeline("Account", records=3)
        for each in list(pipeline.org.records("Account")):
            with pipeline.org.transaction() as work:
                work.update("Account", str(each["Id"]), {"Industry": "Banking"})
        org = opened.enter_context(connect(load_settings()))
        lander = opened.enter_context(Poller(Warehouse(str(pipeline.warehouse)), org, 0.2, POLL))
        yield Topic(pipeline, org, lander)


def test_notifications_land_typed_and_fold_into_the_newest_values(topic: Topic) -> None:
    topic.define()
    topic.land()
    values = {"Name": "A", "Industry": "Energy", "NumberOfEmployees": 7, "SLAExpirationDate__c": "2026-01-02"}
    kept = topic.change("create", values)
    gone = topic.change("create", {"Name": "B", "Industry": "Energy"})
    topic.change("create", {"Name": "C", "Industry": "Banking"})
    topic.change("update", kept, {"Name": "A2"})
    topic.change("delete", gone)
    rows = topic.fold()
    events = EventTable.open(topic.warehouse, CHANNEL)
    assert events is not None
    landed = events.table.scan(["position", "event_type", "Id", "Name"]).sort_by("position").to_pylist()
    assert [(each["event_type"], each["Id"], each["Name"]) for each in landed] == [
        ("created", kept, "A"),
        ("created", gone, "B"),
        ("updated", kept, "A2"),
        ("deleted", gone, None),
    ]
    assert rows.keys() == {kept, gone}
    assert (rows[kept]["Name"], rows[kept]["NumberOfEmployees"]) == ("A2", 7)
    assert rows[kept]["SLAExpirationDate__c"].isoformat() == "2026-01-02"
    assert (rows[kept]["_is_deleted"], rows[kept]["_event_type"], rows[kept]["_position"]) == (False, "updated", 3)
    assert (rows[gone]["_is_deleted"], rows[gone]["Name"]) == (True, "B")
    topic.change("undelete", gone)
    assert topic.fold()[gone]["_is_deleted"] is False
    again = fold_topic(topic.warehouse, CHANNEL)
    assert (again.notifications, again.to_position) == (0, 5), "what is folded is not folded again"


def test_a_record_that_leaves_the_filter_is_marked_by_the_check_and_comes_back_with_a_notification(
    topic: Topic,
) -> None:
    topic.define()
    topic.land()
    left = topic.change("create", {"Name": "A", "Industry": "Energy"})
    stays = topic.change("create", {"Name": "B", "Industry": "Energy"})
    topic.fold()
    topic.change("update", left, {"Industry": "Banking"})
    assert topic.fold()[left]["Industry"] == "Energy", "no notification says that it left"
    report = topic.check()
    assert (report.in_org, report.in_table, report.left, report.is_equal) == (1, 2, 1, False)
    rows = topic.rows()
    assert rows[left]["_left_filter_at"] is not None
    assert rows[stays]["_left_filter_at"] is None
    assert topic.check().is_equal, "what is marked is not found a second time"
    assert topic.rows()[left] == rows[left]
    topic.change("update", left, {"Industry": "Energy", "Name": "A2"})
    back = topic.fold()[left]
    assert (back["_left_filter_at"], back["Name"]) == (None, "A2")
    assert topic.verify().is_equal


def test_records_from_before_the_topic_are_read_by_the_check(topic: Topic) -> None:
    old = topic.change("create", {"Name": "old", "Industry": "Energy", "NumberOfEmployees": 3})
    topic.define()
    assert topic.verify().added == 1
    assert topic.rows() == {}, "verify changes nothing"
    assert (topic.check().added, topic.check().is_equal) == (1, True)
    row = topic.rows()[old]
    assert (row["Name"], row["NumberOfEmployees"], row["_event_type"]) == ("old", 3, None)
    assert row["_read_at"] is not None
    topic.change("update", old, {"Name": "new"})
    assert topic.fold()[old]["Name"] == "new"


def test_a_topic_that_nothing_matches_yet_is_checked_and_then_followed(topic: Topic) -> None:
    topic.define()
    report = topic.check()
    assert (report.in_org, report.in_table, report.is_equal) == (0, 0, True)
    record = topic.change("create", {"Name": "A", "Industry": "Energy"})
    assert topic.fold()[record]["Name"] == "A"
    assert topic.check().is_equal


def test_changes_that_raise_no_notification_are_found_and_taken_over(topic: Topic) -> None:
    topic.define(NotifyForFields="Where", NotifyForOperationDelete=False)
    topic.land()
    one = topic.change("create", {"Name": "A", "Industry": "Energy"})
    two = topic.change("create", {"Name": "B", "Industry": "Energy"})
    topic.fold()
    topic.change("update", one, {"Name": "A2"})
    topic.change("delete", two)
    found = topic.verify()
    assert (found.changed, found.left) == (1, 1)
    assert [str(each) for each in found.differences if each.field] == [f"Energy {one} Name: org 'A2', table 'A'"]
    topic.check()
    rows = topic.rows()
    assert rows[one]["Name"] == "A2"
    assert rows[two]["_left_filter_at"] is not None
    assert rows[two]["_is_deleted"] is False, "that it was deleted nobody said"
    topic.change("undelete", two)
    assert topic.fold()[two]["_left_filter_at"] is None


def test_what_is_notified_just_before_the_read_stays_on_top_of_it(topic: Topic) -> None:
    topic.define()
    topic.land()
    record = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.pipeline.org.clock.advance(60_000)
    topic.change("update", record, {"Name": "A2"})
    topic.fold()
    report = verify_topic(topic.warehouse, topic.org, topic.lander, CHANNEL, 30.0)
    assert (report.in_motion, report.is_equal) == (1, True)


def test_a_new_query_widens_the_tables(topic: Topic) -> None:
    topic_id = topic.define()
    topic.land()
    record = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    topics = topic.pipeline.server.cometd.topics.push_topics
    topics.update(topic_id, {"Query": "SELECT Id, Phone FROM Account WHERE Industry = 'Energy'"})
    topic.change("update", record, {"Phone": "1"})
    row = topic.fold()[record]
    assert (row["Name"], row["Phone"]) == ("A", "1")
    assert topic.verify().is_equal


def test_compound_names_and_addresses_are_kept(topic: Topic) -> None:
    topic.define("SELECT Id, Name, BillingAddress, BillingCity FROM Account WHERE Industry = 'Energy'")
    topic.land()
    record = topic.change("create", {"Name": "A", "Industry": "Energy", "BillingCity": "Oslo"})
    row = topic.fold()[record]
    assert row["BillingCity"] == "Oslo"
    assert "Oslo" in row["BillingAddress"]
    assert topic.verify().is_equal, "a query writes addresses in another form, so their JSON is not compared"


def test_an_address_has_its_parts_as_columns_which_are_compared_with_what_the_query_finds(topic: Topic) -> None:
    topic.define("SELECT Id, BillingAddress FROM Account WHERE Industry = 'Energy'", NotifyForFields="All")
    topic.land()
    values = {"Industry": "Energy", "BillingCity": "Oslo", "BillingLatitude": 59.9, "BillingLongitude": 10.7}
    record = topic.change("create", {"Name": "A", **values})
    row = topic.fold()[record]
    assert (row["BillingCity"], row["BillingLatitude"], row["BillingStreet"]) == ("Oslo", 59.9, None)
    assert topic.check().is_equal
    topic.change("update", record, {"BillingCity": None, "BillingStreet": "Storgata 1"})
    row = topic.fold()[record]
    assert (row["BillingCity"], row["BillingStreet"], row["BillingLatitude"]) == (None, "Storgata 1", 59.9)
    assert topic.verify().is_equal


def test_a_part_of_an_address_that_is_private_is_not_in_the_address_either(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", "Account.BillingCity,Account.ShippingAddress")
    topic.define(
        "SELECT Id, BillingAddress, ShippingCity FROM Account WHERE Industry = 'Energy'", NotifyForFields="All"
    )
    with connect(load_settings()) as org, Poller(topic.warehouse, org, 0.2, POLL) as lander:
        private = Topic(topic.pipeline, org, lander)
        private.land()
        values = {"BillingCity": "Oslo", "BillingStreet": "Storgata 1", "ShippingCity": "Bergen"}
        record = topic.change("create", {"Name": "A", "Industry": "Energy", **values})
        row = private.fold()[record]
    assert row["BillingStreet"] == "Storgata 1"
    assert "Oslo" not in str(row)
    assert "Bergen" not in str(row)
    events = EventTable.open(topic.warehouse, CHANNEL)
    assert events is not None
    assert "Oslo" not in str(events.table.scan().to_pylist())


def test_the_commands_show_and_verify_topics(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"/data/ChangeEvents,{CHANNEL},{CHANNEL}?Name='A'")
    topic.define()
    topic.land()
    left = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    topic.change("update", left, {"Industry": "Banking"})
    topic.pipeline.org.clock.advance(60_000)
    found = sfcdc("verify", "--topic", "Energy")
    assert found.exit_code == 3
    assert f"Energy {left}: the topic's query does not find it any more" in found.stdout
    topic.check()
    equal = sfcdc("verify", "--topic", "Energy", "--json")
    assert (equal.exit_code, json.loads(equal.stdout)["topics"][0]["equal"]) == (0, True)
    (shown,) = json.loads(sfcdc("status", "--json").stdout)["topics"]
    assert (shown["topic"], shown["rows"], shown["left"], shown["applied"], shown["landed"]) == ("Energy", 1, 1, 1, 1)
    assert shown["last_check"]
    assert "PushTopics" in sfcdc("status").stdout
    assert "--topic: no configured channel is /topic/Other" in refusal(sfcdc("verify", "--topic", "Other"))


def explained(*arguments: str) -> list[dict[str, Any]]:
    done = sfcdc("explain", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_row_is_explained_by_its_notifications_and_reads_and_says_what_is_suspect(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", CHANNEL)
    topic.define(NotifyForFields="Where")
    topic.land()
    record = topic.change("create", {"Name": "A", "Industry": "Energy", "NumberOfEmployees": 7})
    topic.fold()
    topic.change("update", record, {"Name": "B"})
    topic.change("update", record, {"NumberOfEmployees": 8})
    (name,) = explained(CHANNEL, record, "name")
    assert (name["Id"], name["field"], name["value"], name["change_type"], name["position"]) == (
        record,
        "Name",
        "A",
        "created",
        1,
    )
    assert (name["change_origin"], name["landed_first"], name["landed_last"], name["run_id"]) == (CHANNEL, 1, 1, None)
    assert name["replay_id"].isdigit()
    assert name["landed_version"] > 0
    assert "the topic's query was never asked" in name["suspect"]
    topic.land()
    assert topic.check().changed == 1
    links = explained(CHANNEL, record[:15], "Name")
    assert [(each["value"], each["change_type"], each["change_origin"], each["suspect"]) for each in links] == [
        ("A", "created", CHANNEL, None),
        ("B", "read", f"query of {CHANNEL}", None),
    ]
    assert links[0]["valid_to"] == links[1]["valid_from"]
    topic.change("update", record, {"Name": "C", "Industry": "Banking"})
    assert topic.check().left == 1
    last = explained(CHANNEL, record)[-1]
    assert last["change_type"] == "left"
    assert "query has not found the record since" in last["suspect"]
    shown = sfcdc("explain", CHANNEL, record).stdout
    assert all(said in shown for said in ("created", "read", "left", "suspect"))
    topic.change("update", record, {"Industry": "Energy"})
    topic.land()
    waiting = explained(CHANNEL, record, "Industry")[-1]
    assert (waiting["change_type"], waiting["value"]) == ("updated", "Energy")
    assert "landed and not in its row yet" in waiting["suspect"]


def test_what_cannot_be_explained_says_what_is_there(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", CHANNEL)
    topic.define()
    topic.land()
    topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    said = {
        (CHANNEL, "001000000000001"): "has no notification of 001000000000001AAA",
        (CHANNEL, "@9"): "which is 1 at most",
        (CHANNEL, "@1", "Nope"): "has no field Nope. Its fields are",
        ("/topic/Other", "@1"): f"Channels that have events: {CHANNEL}",
        ("/data/ChangeEvents", "@1"): "Name the entity and the record",
        ("/x/Energy", "@1"): "is not a channel name",
    }
    for arguments, words in said.items():
        assert words in refusal(sfcdc("explain", *arguments)), arguments


def test_a_question_in_sql_finds_the_state_as_it_is_now(topic: Topic) -> None:
    pytest.importorskip("duckdb")
    topic.define()
    topic.land()
    topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    asked = sfcdc("sql", "--format", "csv", "SELECT Name, _event_type FROM push_topic_state_energy")
    assert asked.stdout.split() == ["Name,_event_type", "A,created"], asked.stderr


def of_state(topic: Topic) -> list[dg.AssetMaterialization]:
    """What was reported to Dagster of the state, the oldest first."""
    records = topic.pipeline.instance.fetch_materializations(
        ASSETS.keys.push_topic_state, limit=10, ascending=True
    ).records
    return [record.asset_materialization for record in records if record.asset_materialization]


def test_sync_folds_what_it_lands_and_the_job_marks_what_left(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", CHANNEL)
    topic.define()
    topic.land()
    left = topic.change("create", {"Name": "A", "Industry": "Energy"})
    said = " ".join(outcome.said for outcome in topic.pipeline.sync())
    assert "1 event landed on /topic/Energy, position 1, 1 record of Energy folded" in said
    (told,) = of_state(topic)
    assert (told.partition, told.metadata["rows"].value, told.metadata["to_position"].value) == ("Energy", 1, 1)
    assert topic.pipeline.instance.get_dynamic_partitions("salesforce_push_topic") == ["Energy"]
    topic.change("update", left, {"Industry": "Banking"})
    topic.pipeline.org.clock.advance(60_000)
    assert topic.pipeline.launch("check_topics").success
    assert topic.rows()[left]["_left_filter_at"] is not None
    assert of_state(topic)[-1].metadata["left"].value == 1
    run = topic.pipeline.launch("check_topics")
    (evaluated,) = run.get_asset_check_evaluations()
    assert evaluated.passed
    assert evaluated.metadata["left_the_filter"].value == 0
    assert len(of_state(topic)) == 2, "where nothing differs nothing is written"
    topic.pipeline.server.cometd.topics.push_topics.delete(topic.topic_id)
    failed = topic.pipeline.launch("check_topics")
    assert not failed.success
    assert "create the topic, or activate it: `sfcdc topics apply`" in topic.pipeline.failure(failed)


def test_a_person_folds_a_topic_and_evaluates_its_check(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"{CHANNEL},{CHANNEL}?Name='A'")
    topic.define()
    topic.land()
    left = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.land()
    channels = load_settings().event_channels
    topic.pipeline.instance.add_dynamic_partitions("salesforce_push_topic", ["Energy"])

    def materialized(partition: str) -> bool:
        assets = [*build_push_topic_state(ASSETS, channels)]
        return dg.materialize(
            assets,
            partition_key=partition,
            instance=topic.pipeline.instance,
            raise_on_error=False,
            run_config=QUIET,
        ).success

    assert materialized("Energy")
    assert topic.rows().keys() == {left}
    (check,) = build_topic_checks(ASSETS, channels)
    assert check().passed
    topic.change("update", left, {"Industry": "Banking"})
    topic.pipeline.org.clock.advance(60_000)
    result = check()
    assert not result.passed
    assert result.metadata["left_the_filter"].value == 1
    assert topic.rows()[left]["_left_filter_at"] is None, "a check reports and changes nothing"


def test_the_state_hangs_below_the_notifications_and_is_not_there_without_a_topic() -> None:
    assert build_push_topic_state(ASSETS, ["/data/ChangeEvents", "/topic/X?Name='A'"]) == []
    assert build_topic_checks(ASSETS, ["/u/Channel"]) == []
    (asset,) = build_push_topic_state(ASSETS, [CHANNEL])
    (spec,) = asset.specs
    assert [dep.asset_key.path[-1] for dep in spec.deps] == ["push_topic_events"]
    assert spec.description
    assert spec.partitions_def is not None
    assert spec.partitions_def.name == "salesforce_push_topic"


def test_a_topic_that_the_org_does_not_have_is_named(topic: Topic) -> None:
    topic_id = topic.define()
    topic.land()
    topic.pipeline.server.cometd.topics.push_topics.delete(topic_id)
    with pytest.raises(TopicMissing, match="the org has no PushTopic Energy"):
        topic.check()


def test_a_topic_that_the_user_may_not_read_is_refused_with_what_to_change(topic: Topic) -> None:
    topic.define()
    topic.pipeline.org.unreadable_objects.add("Account")
    with pytest.raises(ChannelNotPermitted) as refused:
        topic.land()
    assert "Subscriber does not have access to the entity in this topic" in str(refused.value)
    assert "on the object of the topic's query" in str(refused.value)
    topic.pipeline.org.unreadable_objects.add("PushTopic")
    clock.sleep(10)  # a channel that was refused is asked for again after a pause, not before
    with pytest.raises(ChannelNotPermitted, match=r"No access on channel.*Read on Push Topics"):
        topic.land()
    assert topic.rows() == {}


def test_a_state_that_is_deleted_is_folded_again_from_the_notifications(topic: Topic) -> None:
    topic.define()
    topic.land()
    record = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    topic.change("update", record, {"Name": "B"})
    before = topic.fold()
    shutil.rmtree(topic.pipeline.warehouse / "push_topic_state")
    assert topic.rows() == {}
    assert topic.fold() == before


def test_a_state_that_was_spoiled_is_rebuilt_from_the_notifications_and_compared_with_the_query(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", CHANNEL)
    old = topic.change("create", {"Name": "from before", "Industry": "Energy"})
    topic.define()
    topic.land()
    record = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    topic.check()
    before = topic.rows()
    assert before.keys() == {old, record}
    (file, *_) = (topic.pipeline.warehouse / "push_topic_state" / "Energy").glob("*.parquet")
    file.write_bytes(b"spoiled")
    done = sfcdc("rebuild", "--topic", "Energy")
    assert done.exit_code == 0, done.output
    assert f"{CHANNEL}: rebuilt, 1 row as of position 1" in done.stderr
    after = topic.rows()
    assert {each: row["Name"] for each, row in after.items()} == {old: "from before", record: "A"}
    assert after[record]["_position"] == before[record]["_position"]
    assert "--topic: no configured channel is /topic/Other" in refusal(sfcdc("rebuild", "--topic", "Other"))


def test_a_rebuild_takes_in_what_is_folded_meanwhile(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.define()
    topic.land()
    first = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.fold()
    put, meanwhile = rebuild_topic_module.put_in_place, []

    def after_another(*arguments: Any) -> None:
        if not meanwhile:
            meanwhile.append(topic.change("create", {"Name": "B", "Industry": "Energy"}))
            topic.fold()
        put(*arguments)

    monkeypatch.setattr(rebuild_topic_module, "put_in_place", after_another)
    assert (rebuild_topic(topic.warehouse, CHANNEL).rows, topic.rows().keys()) == (2, {first, *meanwhile})
    assert topic.fold().keys() == {first, *meanwhile}


def test_a_topic_of_which_nothing_landed_cannot_be_rebuilt(topic: Topic) -> None:
    with pytest.raises(NoNotifications, match=r"/topic/Energy: no notification has landed.*sfcdc sync"):
        rebuild_topic(topic.warehouse, CHANNEL)


def test_two_that_fold_at_once_fold_each_notification_once(topic: Topic) -> None:
    topic.define()
    topic.land()
    records = [topic.change("create", {"Name": str(number), "Industry": "Energy"}) for number in range(6)]
    topic.land()
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: fold_topic(topic.warehouse, CHANNEL), range(3)))
    assert topic.rows().keys() == set(records)
    assert sum(each.notifications for each in done) == 6
    assert {each.to_position for each in done} == {6}


def test_after_a_lost_checkpoint_the_check_brings_what_nobody_notified(topic: Topic) -> None:
    topic.define()
    topic.land()
    known = topic.change("create", {"Name": "A", "Industry": "Energy"})
    left = topic.change("create", {"Name": "B", "Industry": "Energy"})
    topic.fold()
    topic.lander.__exit__(None, None, None)
    topic.change("update", known, {"Name": "A2"})
    topic.change("update", left, {"Industry": "Banking"})
    missed = topic.change("create", {"Name": "C", "Industry": "Energy"})
    topic.pipeline.org.clock.advance(30 * 3_600_000)
    assert topic.lander.land(CHANNEL).lost_checkpoint
    report = topic.check()
    assert (report.changed, report.added, report.left) == (1, 1, 1)
    rows = topic.rows()
    assert (rows[known]["Name"], rows[missed]["Name"]) == ("A2", "C")
    assert rows[left]["_left_filter_at"] is not None
    assert topic.verify().is_equal


def test_private_fields_are_in_neither_table_and_hashed_ones_are_compared_as_hashes(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", "Account.Name")
    monkeypatch.setenv("SFCDC_HASH", "Account.NumberOfEmployees")
    monkeypatch.setenv("SFCDC_HASH_KEY", "a long random text")
    topic.define()
    with connect(load_settings()) as org, Poller(topic.warehouse, org, 0.2, POLL) as lander:
        private = Topic(topic.pipeline, org, lander)
        private.land()
        record = topic.change("create", {"Name": "hidden", "Industry": "Energy", "NumberOfEmployees": 7})
        row = private.fold()[record]
        assert "Name" not in row
        assert len(row["NumberOfEmployees"]) == 64
        assert private.verify().is_equal
