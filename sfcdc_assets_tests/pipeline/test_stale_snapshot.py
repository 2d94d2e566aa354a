"""A snapshot that shows an older state than the events before its pin is not believed where it contradicts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.emulator.object_file import built_in_definitions
from sfcdc_assets.emulator.org_life import LifeMix
from sfcdc_assets.emulator.settings import OrgSettings
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing import Lander
from sfcdc_assets.pipeline.snapshot import take_snapshot
from sfcdc_assets_tests.pipeline.lives import CHANNEL, SETTLE, Life, opened
from sfcdc_assets_tests.pipeline.lives_in_process import Handles, with_roots_read_once, without_spark
from sfcdc_assets_tests.pipeline.lives_plan import Plan
from sfcdc_assets_tests.pipeline.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows

LAG_MS = 60_000
STATE = "current_state/Account"
LAYERS = ("current_state", "history")


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """An org with accounts, and a warehouse that equals it. Nobody's clock moves but by hand."""
    with_roots_read_once(monkeypatch)
    Handles().install(monkeypatch)
    without_spark(monkeypatch, Random(1))
    accounts = tuple(each for each in built_in_definitions() if each.name == "Account")
    plan = Plan(1, accounts, OrgSettings(), LifeMix(), 0.0, (), 6, 0.0)
    with opened(plan, tmp_path / "warehouse", tmp_path) as life:
        yield life


def lag(life: Life, rest_delay: int) -> None:
    """Let REST show from now on what was so long ago."""
    life.org.settings = replace(life.org.settings, rest_delay=rest_delay)


def catch_up(life: Life) -> None:
    """A run; no snapshot."""
    life._catch_up(entity_channels(life.warehouse, [CHANNEL], (), life._connected.members))


def snapshot(life: Life) -> int:
    """Take one, pinned to all that has landed; its number."""
    lander = Lander(life.warehouse, life._connected, clock_ms=life.clock)
    landed = lander.land(CHANNEL, settle=SETTLE, budget=20.0).position
    return take_snapshot(
        life.warehouse,
        life._connected,
        "Account",
        CHANNEL,
        lambda _: landed,
        spark=life._session,
        clock_ms=life.clock,
    ).number


def ids(life: Life) -> list[str]:
    return [str(record["Id"]) for record in life.org.records("Account")]


def change(life: Life) -> tuple[str, str, str, str]:
    """Ids of a created, an updated, a deleted and an undeleted account, all of which REST shows late."""
    updated, deleted, undeleted, *_ = ids(life)
    with life.org.transaction() as work:
        work.delete("Account", undeleted)
    life.clock.advance(LAG_MS + 1)
    lag(life, LAG_MS)
    with life.org.transaction() as work:
        created = work.create("Account", {"Name": "not shown yet"})
        work.update("Account", updated, {"Name": "not so yet"})
        work.delete("Account", deleted)
        work.undelete("Account", undeleted)
    return created, updated, deleted, undeleted


def each_version(life: Life, since: int) -> Iterator[dict[str, dict[str, object]]]:
    """The rows by Id of every version of the table after one: what a reader could have seen."""
    for version in range(since + 1, DeltaTable(life.warehouse.uri(STATE)).version() + 1):
        yield {row["Id"]: row for row in rows_of(life.warehouse, STATE, version)}


def by_id(life: Life, layer: str) -> list[dict[str, Any]]:
    return sorted(rows_of(life.warehouse, f"{layer}/Account"), key=lambda row: (row["Id"], row["_position"]))


def open_reasons(life: Life) -> dict[str, str]:
    ledger = rows_of(life.warehouse, "gap_reconciliation/Account")
    return {row["record_id"]: row["reason"] for row in ledger if row["status"] == "open"}


def assert_equal(life: Life) -> None:
    found = {row["Id"]: row for row in rows_of(life.warehouse, STATE)}
    assert not [row["Id"] for row in found.values() if row["_in_doubt"]]
    assert open_reasons(life) == {}
    assert_same_rows("Account", found, expected_rows(life.org, "Account"))


@pytest.mark.parametrize("applied_before", [True, False])
def test_what_contradicts_recent_events_is_put_in_doubt_and_the_rest_is_applied(
    life: Life, applied_before: bool
) -> None:
    life.sync()
    before = DeltaTable(life.warehouse.uri(STATE)).version()
    created, updated, *_ = changed = change(life)
    life.clock.advance(1_000)
    if applied_before:
        catch_up(life)
    snapshot(life)
    catch_up(life)
    for rows in each_version(life, before):
        for record_id in set(changed) & rows.keys():
            assert rows[record_id]["_deleted_reason"] != "hard_deleted"
        for record_id in {created, updated} & rows.keys():
            assert not rows[record_id]["_is_deleted"]
    found = {row["Id"]: row for row in rows_of(life.warehouse, STATE)}
    assert {row["Id"] for row in found.values() if row["_in_doubt"]} == set(changed)
    assert open_reasons(life) == dict.fromkeys(changed, "stale_snapshot")
    life.clock.advance(10 * LAG_MS)
    catch_up(life)
    assert_equal(life)


def test_the_first_snapshot_of_all_is_compared_too(life: Life) -> None:
    """The channel is landed before the table is there: a record that REST does not show would be missing for ever."""
    life.clock.advance(LAG_MS)
    created = change(life)[0]
    life.sync()
    life.clock.advance(10 * LAG_MS)
    life.sync()
    assert created in {row["Id"] for row in rows_of(life.warehouse, STATE)}
    assert_equal(life)


def test_a_snapshot_of_an_org_that_shows_the_present_puts_nothing_in_doubt(life: Life) -> None:
    life.sync()
    change(life)
    lag(life, 0)
    life.clock.advance(1_000)
    snapshot(life)
    catch_up(life)
    assert rows_of(life.warehouse, "gap_reconciliation/Account") == []
    assert_equal(life)


def test_rebuilding_from_a_snapshot_that_was_not_believed_gives_the_same_rows(life: Life) -> None:
    life.sync()
    change(life)
    life.clock.advance(1_000)
    snapshot(life)
    catch_up(life)
    assert open_reasons(life)
    assert snapshot(life) == 3, "of the same pin, and as old"
    catch_up(life)
    assert open_reasons(life)
    life.clock.advance(10 * LAG_MS)
    catch_up(life)
    before = [by_id(life, layer) for layer in LAYERS]
    life.rebuild()
    assert [by_id(life, layer) for layer in LAYERS] == before
    assert_equal(life)
