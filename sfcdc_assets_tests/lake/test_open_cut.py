"""Cuts and what opens at them: the versions that belong together, and a plain word where they are gone."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sfcdc_assets import open_cut
from sfcdc_assets.consistent_cut import ConsistentCut
from sfcdc_assets.lake.errors import CutGone, NoCut
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut, cuts
from sfcdc_assets.lake.warehouse import Warehouse

CHANNEL = "/data/ChangeEvents"
PATHS = ("current_state/Account", "current_state/Contact")
START = datetime(2026, 11, 20, tzinfo=UTC)


class Tables:
    """Two tables that get a row for each transaction."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)
        self.warehouse = Warehouse(self.root)
        self.position = 0

    def transaction(self) -> Cut:
        self.position += 1
        for path in PATHS:
            write_deltalake(f"{self.root}/{path}", pa.table({"Id": [str(self.position)]}), mode="append")
        versions = dict.fromkeys(PATHS, self.position - 1)
        return Cut(CHANNEL, self.position, START + timedelta(hours=self.position), versions)

    def add(self, cut: Cut) -> bool:
        return add_cut(self.warehouse, cut, datetime.now(UTC))


def positions(opened: ConsistentCut) -> list[int]:
    return [cut.position for cut in opened.cuts]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_all_tables_open_as_they_were_at_the_cut(tables: Tables) -> None:
    assert tables.add(tables.transaction())
    tables.transaction()
    opened = open_cut(tables.root)
    assert {path: table.count() for path, table in opened.items()} == dict.fromkeys(PATHS, 1)
    assert positions(opened) == [1]


def test_a_cut_of_an_earlier_time_is_found_by_when_its_transaction_was_committed(tables: Tables) -> None:
    for _ in range(3):
        tables.add(tables.transaction())
    assert positions(open_cut(tables.root)) == [3]
    assert positions(open_cut(tables.root, at=START + timedelta(hours=2))) == [2]
    with pytest.raises(NoCut, match=r"at or before 2026-11-20T00:30.*Ask for a later time"):
        open_cut(tables.root, at=START + timedelta(minutes=30))


def test_the_newest_cut_is_the_one_with_the_highest_position_whatever_the_clock_said(tables: Tables) -> None:
    first, second = tables.transaction(), tables.transaction()
    add_cut(tables.warehouse, first, datetime.now(UTC) + timedelta(days=1))
    assert tables.add(second)
    assert positions(open_cut(tables.root)) == [2]


def test_the_same_cut_is_noted_once(tables: Tables) -> None:
    cut = tables.transaction()
    assert [tables.add(cut), tables.add(cut)] == [True, False]
    assert len(cuts(tables.warehouse)) == 1


def test_a_table_that_was_rebuilt_is_not_taken_for_what_the_cut_meant(tables: Tables) -> None:
    cut = tables.transaction()
    tables.add(cut)
    before = open_cut(tables.root)
    shutil.rmtree(f"{tables.root}/{PATHS[0]}")
    write_deltalake(f"{tables.root}/{PATHS[0]}", pa.table({"Id": ["other"]}))
    assert before[PATHS[1]].count() == 1
    with pytest.raises(CutGone, match="current_state/Account"):
        before[PATHS[0]]
    assert tables.add(cut), "the same versions again, of another table"
    assert open_cut(tables.root)[PATHS[0]].count() == 1


def test_a_version_that_is_not_there_is_reported(tables: Tables) -> None:
    cut = tables.transaction()
    tables.add(Cut(cut.channel, cut.position, cut.commit_timestamp, {PATHS[0]: 7, "current_state/Lead": 0}))
    opened = open_cut(tables.root)
    for path in opened:
        with pytest.raises(CutGone, match=path):
            opened[path]


def test_without_cuts_the_reader_is_told_what_to_do_and_with_those_of_several_channels_gets_all(tables: Tables) -> None:
    with pytest.raises(NoCut, match="sfcdc sync"):
        open_cut(tables.root)
    cut = tables.transaction()
    tables.add(cut)
    tables.add(Cut("/data/Sales__chn", 9, None, cut.tables))
    assert {cut.channel for cut in open_cut(tables.root).cuts} == {CHANNEL, "/data/Sales__chn"}
    assert positions(open_cut(tables.root, channel="/data/Sales__chn")) == [9]
