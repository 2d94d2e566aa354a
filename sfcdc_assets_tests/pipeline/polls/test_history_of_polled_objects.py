"""History of polled records beside the org's own log: what a version claims was so; what nobody saw is not claimed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from sfcdc_assets.emulator.setup.companion_setup import track_fields
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.oracle import EPOCH, column_fields, typed
from sfcdc_assets_tests.pipeline.polls.polled_org import reading, settings_of_polls
from sfcdc_assets_tests.pipeline.reconciliation.past_checks import assert_true_to_the_log, before, past_of
from sfcdc_assets_tests.pipeline.story import go_on, story
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow, in_order

SEED, ENTITY, ROUNDS = 83, "Case", 14
MS = timedelta(milliseconds=1)
A_SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Cases that were changed, deleted and undeleted some times between two polls, and polled often."""
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    with story(tmp_path_factory.mktemp("history"), ["Account"], records=6, seed=SEED) as pipeline:
        with pytest.MonkeyPatch.context() as patch:
            settings_of_polls(patch)
            live_before_the_copy(pipeline)
            pipeline.sync()
            known = list(ids(pipeline.org, ENTITY))
            with reading(pipeline) as (reader, _, _):
                for number in range(ROUNDS):
                    for _ in range(dice.randrange(4)):
                        pipeline.org.clock.sleep(dice.randrange(30, 200))
                        change(pipeline, dice, known, number)
                    pipeline.org.clock.sleep(1000)
                    reader.land(TICK)
            pipeline.sync()
        yield pipeline


def live_before_the_copy(pipeline: EmulatedPipeline) -> None:
    track_fields(pipeline.org, ENTITY, ["Subject", "Status"])
    for number in range(6):
        pipeline.org.clock.sleep(3600)
        with pipeline.org.transaction() as work:
            work.update(ENTITY, ids(pipeline.org, ENTITY)[number // 3], {"Subject": f"before the copy {number}"})
    pipeline.org.clock.sleep(3600)


def change(pipeline: EmulatedPipeline, dice: random.Random, known: list[str], number: int) -> None:
    living = list(ids(pipeline.org, ENTITY))
    with pipeline.org.transaction() as work:
        for record_id in dice.sample(known, 2):
            if record_id not in living:
                work.undelete(ENTITY, record_id)
            elif dice.random() < 0.15:
                work.delete(ENTITY, record_id)
            else:
                values = {"Description": f"{number} {dice.random():.3f}", "Subject": dice.choice("abc")}
                work.update(ENTITY, record_id, {name: values[name] for name in dice.sample(list(values), 1)})


@pytest.fixture
def org(lived: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> EmulatedPipeline:
    go_on(lived, monkeypatch)
    settings_of_polls(monkeypatch)
    return lived


def versions_of(pipeline: EmulatedPipeline) -> list[dict[str, Any]]:
    return sorted(pipeline.all_versions(ENTITY), key=lambda each: (each["Id"], in_order(each)))


def truth(pipeline: EmulatedPipeline, moment: datetime) -> Mapping[str, Mapping[str, Any]]:
    """The living records at a moment, by the org's own log."""
    fields = column_fields(pipeline.org.definitions[ENTITY])
    seen = pipeline.org.seen_at(ENTITY, (moment - EPOCH) // MS)
    return {each: {field.name: typed(field, row.get(field.name)) for field in fields} for each, row in seen.items()}


def test_each_value_that_a_version_claims_was_so_from_its_first_moment_to_its_last(org: EmulatedPipeline) -> None:
    checked = 0
    found = versions_of(org)
    assert_versions_follow(found)
    moments = {
        each
        for version in found
        for each in (version["_valid_from"] + A_SECOND, (version["_valid_to"] or org_now(org)) - A_SECOND)
    }
    log = {moment: truth(org, moment) for moment in moments}
    for version in found:
        start, end = version["_valid_from"] + A_SECOND, (version["_valid_to"] or org_now(org)) - A_SECOND
        certain = version["_certain_fields"]
        for moment in (each for each in moments if start <= each <= end):
            was = log[moment].get(version["Id"])
            if certain is None:
                assert (was is None) == version["_is_deleted"], (version, moment)
            for name in was or ():
                if certain is None or name in certain:
                    checked += 1
                    assert was is not None
                    assert version[name] == was[name], (name, moment, version)
    assert checked > 1_000


def org_now(pipeline: EmulatedPipeline) -> datetime:
    return EPOCH + pipeline.org.clock() * MS


def test_no_version_is_claimed_of_changes_that_no_poll_saw(org: EmulatedPipeline) -> None:
    found = versions_of(org)
    kinds = {each["_change_type"] for each in found}
    assert kinds == {"SNAPSHOT", "POLL", "DELETE", "UNKNOWN"}
    made = sum(1 for each in org.org.transactions() for of in each.changes if of.entity == ENTITY)
    seen = [each for each in found if each["_change_type"] in ("POLL", "DELETE")]
    assert len(seen) < made, "several changes of a record between two polls are one version"
    for earlier, after in pairwise(found):
        if after["_change_type"] in ("POLL", "DELETE") and earlier["Id"] == after["Id"]:
            assert earlier["_change_type"] == "UNKNOWN", "what was before a change that was seen is not known"
            assert earlier["_certain_fields"] == []
            assert earlier["_valid_to"] == after["_valid_from"]


def test_versions_are_dated_by_the_records_stamp_and_unknown_ones_by_when_the_org_was_asked(
    org: EmulatedPipeline,
) -> None:
    dated = {(each["_change_type"], each["_dated_by"]) for each in versions_of(org)}
    assert dated == {("SNAPSHOT", "stamp"), ("POLL", "stamp"), ("DELETE", "stamp"), ("UNKNOWN", "seen")}


def test_a_rebuild_gives_the_same_versions(org: EmulatedPipeline) -> None:
    known = versions_of(org)
    assert sfcdc("rebuild", "--entity", ENTITY).exit_code == 0
    left_out = {"_batch": None}
    assert [each | left_out for each in versions_of(org)] == [each | left_out for each in known]
    assert Warehouse(str(org.warehouse)).entities("history")


def test_what_was_before_the_copy_of_a_polled_object_is_as_the_orgs_own_log_has_it(org: EmulatedPipeline) -> None:
    """The last one: the others look at versions that were polled."""
    known = versions_of(org)
    (report,) = before(ENTITY)
    past = past_of(org, ENTITY)
    assert len(past) == report["versions"] > 4
    assert assert_true_to_the_log(org.org, ENTITY, past) > 10
    assert "before the copy 1" in {each["Subject"] for each in past if "Subject" in each["_certain_fields"]}
    found = versions_of(org)
    assert_versions_follow(found)
    assert [each for each in found if each["_change_type"] != "FIELD_HISTORY"] == known, "what polls proved stays"
