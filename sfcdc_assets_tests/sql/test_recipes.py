"""The recipes of docs/asking-the-tables.md: each is run as it is printed, and gives what Python works out from the
versions."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfcdc_assets import open_cut, open_history
from sfcdc_assets_tests.documentation import ROOT, code_blocks
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, new_org, only_settings_of_tests, served

PAGE = ROOT / "docs" / "asking-the-tables.md"
HOUR = 3_600_000
STAGES = ("Prospecting", "Negotiation/Review", "Closed Won")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    """Opportunities that go through stages within two days, over the end of a month, and one that is deleted."""
    folder = tmp_path_factory.mktemp("recipes")
    org = new_org(folder, ("Account", "Opportunity", "User"), records=6)
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.chdir(folder)
        with served(org, folder, patch) as pipeline:
            pipeline.sync()
            ids = [str(record["Id"]) for record in org.records("Opportunity")]
            for step, stage in enumerate(STAGES):
                for number, record_id in enumerate(ids):
                    if step <= number % 3:
                        with org.transaction() as one:
                            one.update("Opportunity", record_id, {"StageName": stage, "Amount": 1000 * step + number})
                org.clock.advance(HOUR)
            with org.transaction() as one:
                one.delete("Opportunity", ids[0])
            pipeline.sync()
            yield pipeline


@pytest.fixture
def views(pipeline: EmulatedPipeline) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_cut(str(pipeline.warehouse)).duckdb() as views:
        yield views


@pytest.fixture
def versions(pipeline: EmulatedPipeline) -> list[dict[str, Any]]:
    found = open_history(str(pipeline.warehouse), "Opportunity").to_pylist()
    assert len(found) > 10
    return sorted(found, key=lambda row: (row["Id"], row["_valid_from"], row["_position"]))


def recipe(**put: str) -> str:
    """The statement of the page that names the calling test, with other texts put in the place of its own."""
    caller = inspect.stack()[1].function
    (text,) = [
        block.text
        for block in code_blocks(PAGE)
        if block.options.get("covered-by", "").endswith(f"{Path(__file__).name}::{caller}")
    ]
    for old, new in put.items():
        assert RECIPE_TEXTS[old] in text
        text = text.replace(RECIPE_TEXTS[old], new)
    return text


RECIPE_TEXTS = {
    "moment": "2026-11-20 12:00",
    "now": "now()",
    "day": "INTERVAL 1 DAY",
    "month": "month'",
    "step": "INTERVAL 1 MONTH",
}


def lived_at(versions: list[dict[str, Any]], moment: datetime) -> list[dict[str, Any]]:
    return [
        row
        for row in versions
        if row["_valid_from"] <= moment
        and (row["_valid_to"] is None or row["_valid_to"] > moment)
        and not row["_is_deleted"]
    ]


def test_two_entities_are_joined_as_they_were_at_one_moment(
    views: duckdb.DuckDBPyConnection, versions: list[dict[str, Any]]
) -> None:
    moments = sorted({row["_valid_from"] for row in versions})
    then = moments[len(moments) // 2]
    found = views.execute(recipe(moment=then.isoformat())).fetchall()
    wanted = sorted((row["Name"], row["StageName"]) for row in lived_at(versions, then) if row["AccountId"])
    assert sorted((name, stage) for _, name, stage in found) == wanted != []


def test_a_stages_steps_are_the_changes_of_its_values(
    views: duckdb.DuckDBPyConnection, versions: list[dict[str, Any]]
) -> None:
    wanted, before = [], {}
    for row in versions:
        if not row["_is_deleted"]:
            if before.get(row["Id"]) != row["StageName"]:
                wanted.append((row["Id"], before.get(row["Id"]), row["StageName"], row["_valid_from"]))
            before[row["Id"]] = row["StageName"]
    found = views.execute(recipe()).fetchall()
    assert [row[:4] for row in found] == wanted
    assert len({stage for _, _, stage, *_ in found}) > 2
    assert all(by for _, stage_before, _, _, by in found if stage_before)


def test_time_in_a_stage_is_the_sum_of_its_versions(
    views: duckdb.DuckDBPyConnection, versions: list[dict[str, Any]]
) -> None:
    now = max(row["_valid_from"] for row in versions)
    days: dict[str, float] = defaultdict(float)
    for row in versions:
        if not row["_is_deleted"]:
            days[row["StageName"]] += ((row["_valid_to"] or now) - row["_valid_from"]).total_seconds() / 86400
    found = views.execute(recipe(now=f"TIMESTAMPTZ '{now.isoformat()}'")).fetchall()
    assert {stage: spent for stage, _, spent in found} == pytest.approx(days)


def test_who_changed_a_field_is_in_the_versions_that_name_it(
    views: duckdb.DuckDBPyConnection, versions: list[dict[str, Any]]
) -> None:
    wanted = [row for row in versions if "Amount" in (row["_changed_fields"] or ())]
    found = views.execute(recipe()).fetchall()
    assert sorted((key, when, amount) for key, when, _, amount in found) == sorted(
        (row["Id"], row["_valid_from"], row["Amount"]) for row in wanted
    )
    assert found
    assert all(by for _, _, by, _ in found)


def test_what_is_new_are_the_versions_that_began_since(
    views: duckdb.DuckDBPyConnection, versions: list[dict[str, Any]]
) -> None:
    now = max(row["_valid_from"] for row in versions)
    found = views.execute(recipe(now=f"TIMESTAMPTZ '{now.isoformat()}'", day="INTERVAL 90 MINUTE")).fetchall()
    wanted = Counter(row["_change_type"] for row in versions if (now - row["_valid_from"]).total_seconds() < 90 * 60)
    assert {kind: changes for kind, changes, _ in found} == wanted
    assert {"UPDATE", "DELETE"} <= wanted.keys()


def test_open_records_are_counted_at_each_months_end(
    views: duckdb.DuckDBPyConnection, versions: list[dict[str, Any]]
) -> None:
    """Hours stand for months: no test waits for one."""
    now = max(row["_valid_from"] for row in versions)
    text = recipe(now=f"TIMESTAMPTZ '{now.isoformat()}'", month="hour'", step="INTERVAL 1 HOUR")
    watched = f"(FROM opportunity_history WHERE _valid_from > TIMESTAMPTZ '{now.isoformat()}' - INTERVAL 5 HOUR)"
    found = views.execute(
        text.replace("min(_valid_from)) FROM opportunity_history", f"min(_valid_from)) FROM {watched}")
    )
    counts = found.fetchall()
    assert len(counts) > 2
    for end, count in counts:
        alive = [
            row
            for row in versions
            if row["_valid_from"] < end and (row["_valid_to"] is None or row["_valid_to"] >= end)
        ]
        wanted = [row for row in alive if not row["_is_deleted"] and not row["StageName"].startswith("Closed")]
        assert count == len(wanted)
    assert len({count for _, count in counts}) > 1
