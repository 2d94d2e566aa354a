"""What is known of a PushTopic's records, built again from its notifications."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from sfcdc_assets.event_channels.tables import rebuild_topic as rebuild_topic_module
from sfcdc_assets.event_channels.tables.rebuild_topic import NoNotifications, rebuild_topic
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.event_channels.topic import CHANNEL, Topic, topic

__all__ = ["topic"]


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
