"""A record is erased from what PushTopics have brought, and neither a notification nor the topic's query brings it
back."""

from __future__ import annotations

from sfcdc_assets.event_channels.tables.rebuild_topic import rebuild_topic
from sfcdc_assets.lake.erasure.erase import erase, find
from sfcdc_assets.lake.tables.erasure_receipts import OnNewEvent
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets_tests.leaks import files_with
from sfcdc_assets_tests.pipeline.event_channels.topic import CHANNEL, Topic, topic

__all__ = ["topic"]

VALUES = {"a name": "Zambrowitzka Quixleya", "its new one": "Brzeczykowa Holding"}


def test_notifications_and_state_go_and_stay_away(topic: Topic) -> None:
    topic.define()
    topic.land()
    gone = topic.change("create", {"Name": VALUES["a name"], "Industry": "Energy"})
    topic.change("create", {"Name": "B", "Industry": "Energy"})
    topic.fold()
    topic.change("update", gone, {"Name": VALUES["its new one"]})
    assert set(topic.fold()) > {gone}
    folder = topic.warehouse.folder
    assert len({each.partition(" in ")[0] for each in files_with(VALUES, folder)}) == 2
    events = EventTable.open(topic.warehouse, CHANNEL)
    assert events is not None
    positions = events.table.scan(["position"])["position"].to_pylist()

    records = {"Account": frozenset([gone])}
    assert find(topic.warehouse, records).rows["push_topic_state/Energy"] == 1
    _, done = erase(topic.warehouse, records, on_new_event=OnNewEvent.REFUSE, by="a test")
    assert done.erased == {"push_topic_events/Energy": 2, "push_topic_state/Energy": 1}

    def assert_gone() -> None:
        assert files_with(VALUES, folder) == []
        assert gone not in topic.rows()
        assert "B" in {row["Name"] for row in topic.rows().values()}

    assert_gone()
    events = EventTable.open(topic.warehouse, CHANNEL)
    assert events is not None
    assert sorted(events.table.scan(["position"])["position"].to_pylist()) == sorted(positions)
    topic.change("update", gone, {"Name": VALUES["a name"]})
    topic.fold()
    assert_gone()
    topic.check()
    assert_gone()
    rebuild_topic(topic.warehouse, CHANNEL)
    assert_gone()
