"""PushTopics from the emulated org over CometD into their tables: notifications, what is known of each record, and the
check by the topic's own query. No Dagster and no Spark take part."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sfcdc_assets.event_channels.tables.filter_check import TopicMissing, verify_topic
from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.errors import ChannelNotPermitted
from sfcdc_assets_tests.pipeline.event_channels.topic import CHANNEL, Topic, topic

__all__ = ["topic"]


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


def test_a_part_of_an_address_that_is_private_is_not_in_the_address_either(topic: Topic) -> None:
    topic.define(
        "SELECT Id, BillingAddress, ShippingCity FROM Account WHERE Industry = 'Energy'", NotifyForFields="All"
    )
    settings = Settings(exclude="Account.BillingCity,Account.ShippingAddress")
    with connect(settings) as org, Poller(topic.warehouse, org, 0.2, POLL) as lander:
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


def test_private_fields_are_in_neither_table_and_hashed_ones_are_compared_as_hashes(topic: Topic) -> None:
    settings = Settings(exclude="Account.Name", hash="Account.NumberOfEmployees", hash_key="a long random text")
    topic.define()
    with connect(settings) as org, Poller(topic.warehouse, org, 0.2, POLL) as lander:
        private = Topic(topic.pipeline, org, lander)
        private.land()
        record = topic.change("create", {"Name": "hidden", "Industry": "Energy", "NumberOfEmployees": 7})
        row = private.fold()[record]
        assert "Name" not in row
        assert len(row["NumberOfEmployees"]) == 64
        assert private.verify().is_equal
