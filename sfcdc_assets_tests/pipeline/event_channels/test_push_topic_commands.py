"""PushTopics as the commands and Dagster show them: compared, explained, asked for in SQL, folded by a person."""

from __future__ import annotations

import json
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.assets.push_topic_state import build_push_topic_state
from sfcdc_assets.orchestration.checks.topics import build_topic_checks
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import QUIET
from sfcdc_assets_tests.pipeline.event_channels.topic import CHANNEL, Topic, topic

__all__ = ["topic"]


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


def test_a_topic_that_never_notified_is_compared_with_what_its_query_finds(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_CHANNELS", f"/data/ChangeEvents,{CHANNEL}")
    record = topic.change("create", {"Name": "A", "Industry": "Energy"})
    topic.define()
    found = sfcdc("verify", "--topic", "Energy")
    assert (found.exit_code, record in found.stdout) == (3, True), found.output


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
    (reported,) = of_state(topic)
    assert (reported.partition, reported.metadata["rows"].value, reported.metadata["to_position"].value) == (
        "Energy",
        1,
        1,
    )
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
