"""Files that another client left with overlapping Ids: a batch takes from them what it concerns, in bounded pieces, and
maintenance brings them apart again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from sfcdc_assets.key_ranges import data_file, key_ranges, range_rows, sample
from sfcdc_assets.key_ranges.key_ranges import (
    IdRange,
    KeyRange,
    LookedInto,
    is_too_much,
    key_ranges_of_table,
    overlapping,
    range_numbers,
    to_look_into,
)
from sfcdc_assets.lake.delta.data_files import DataFile, NewFile, PackedFiles
from sfcdc_assets.lake.maintenance import separate as separate_module
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.separate import Step, next_step, separate
from sfcdc_assets.lake.maintenance.table_done import TableDone
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.current_state import CurrentState, id_ranges
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import compact, deal_out
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, STATE, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

pytestmark = pytest.mark.slow

MOST, TARGET = 10, 5
"""Rows that a task may hold, and that a file has after a split."""
BATCHES_MEANWHILE = 8
"""Enough to replace each of four files, and a few of those that they were separated into."""
ROW_BYTES = 1_000

Table = Mapping[str, frozenset[str]]
"""The Ids in each of a table's files."""


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large of files of a few rows."""
    for module in (key_ranges, data_file, separate_module):
        monkeypatch.setattr(module, "TARGET_ROWS", TARGET)
    for module in (key_ranges, data_file):
        monkeypatch.setattr(module, "MAX_ROWS", MOST)
    monkeypatch.setattr(key_ranges, "MERGED_BYTES", 3 * ROW_BYTES)
    monkeypatch.setattr(range_rows, "MAX_BYTES", 0)
    monkeypatch.setattr(sample, "LOOKED_AT_EVERY", 1)
    monkeypatch.setattr(separate_module, "FAN_OUT", 4)


# -- the plan


def ranges(table: Table) -> list[IdRange]:
    return [IdRange(name, min(ids), max(ids), len(ids) * ROW_BYTES, len(ids)) for name, ids in table.items()]


def look_into(table: Table, files: Sequence[IdRange], concerned: set[str]) -> dict[IdRange, LookedInto]:
    return {file: LookedInto(len(table[file.path] & concerned), tuple(sorted(table[file.path]))) for file in files}


def apply_batch(table: Table, concerned: set[str], number: int) -> tuple[dict[str, frozenset[str]], list[KeyRange]]:
    """The table after a batch that changes or makes these records, and the key ranges it wrote."""
    files = ranges(table)
    looked = look_into(table, to_look_into(files, pl.Series(sorted(concerned), dtype=pl.String)), concerned)
    planned = key_ranges_of_table(files, looked_into=looked)
    assert (planned[0].lower, planned[-1].upper) == ("", None)
    assert all(one.upper == other.lower for one, other in itertools.pairwise(planned))
    touched = {*range_numbers(planned, sorted(concerned)), *(each.number for each in planned if each.is_cut)}
    left = dict(table)
    written: dict[str, frozenset[str]] = {}
    for each in (planned[number] for number in touched):
        held = {
            record_id
            for path in each.files
            for record_id in table[path]
            if each.lower <= record_id and (each.upper is None or record_id < each.upper)
        }
        assert len(held) <= MOST, "no task holds more rows"
        rows = sorted(held | {i for i in concerned if range_numbers(planned, [i]) == [each.number]})
        for start in range(0, len(rows), TARGET):
            written[f"batch {number}, {each.number}.{start}"] = frozenset(rows[start : start + TARGET])
        for path in each.files:
            left.pop(path, None)
    return left | written, [planned[number] for number in touched]


def take_step(table: Table, step: Step, number: int) -> dict[str, frozenset[str]]:
    left = {name: ids for name, ids in table.items() if name not in {file.path for file in step.files}}
    rows = sorted(set().union(*(table[file.path] for file in step.files)))
    if step.cuts:
        assert len(step.files) == 1
    else:
        assert len(rows) <= MOST, "no more rows are held"
    ends = ["", *step.cuts, "~"]
    for part, (lower, upper) in enumerate(itertools.pairwise(ends)):
        of_part = [record_id for record_id in rows if lower <= record_id < upper]
        for start in range(0, len(of_part), TARGET):
            left[f"step {number}, {part}.{start}"] = frozenset(of_part[start : start + TARGET])
    return left


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Any records in any files."""
    count = draw(st.integers(1, 60))
    dealt = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    ids = [f"{number:03}" for number in range(0, 2 * count, 2)]
    return {f"file {file}": frozenset(i for i, of in zip(ids, dealt, strict=True) if of == file) for file in set(dealt)}


concerned_ids = st.sets(st.integers(0, 130).map(lambda number: f"{number:03}"), min_size=1, max_size=6)


@given(tables(), st.lists(concerned_ids, max_size=6))
def test_of_any_files_and_batches_every_record_is_in_one_file_and_no_task_holds_more_than_it_may(
    table: Table, batches: list[set[str]]
) -> None:
    known = set().union(*table.values())
    for number, concerned in enumerate(batches):
        table, _ = apply_batch(table, concerned, number)
        known |= concerned
        assert sorted(i for ids in table.values() for i in ids) == sorted(known)


@given(tables(), concerned_ids)
def test_files_that_are_too_much_for_a_task_stay_unless_they_hold_a_record_of_the_batch(
    table: Table, concerned: set[str]
) -> None:
    crowded = {file.path for group in overlapping(ranges(table)) if is_too_much(group) for file in group}
    _, written = apply_batch(table, concerned, 1)
    opened = {path for each in written for path in each.files} & crowded
    holding = {path for path in crowded if table[path] & concerned}
    assert holding <= opened
    beside = sum(len(table[path]) * ROW_BYTES for path in opened - holding)
    assert beside <= (sum(len(table[path]) * ROW_BYTES for path in holding) or key_ranges.MERGED_BYTES)


@given(tables(), st.dictionaries(st.integers(0, 30), concerned_ids, max_size=5))
def test_any_files_are_apart_after_finitely_many_bounded_steps_beside_batches(
    table: Table, batches: dict[int, set[str]]
) -> None:
    cuts: set[str] = set()
    records = set().union(*table.values())
    for number in range(400):
        if number in batches:
            table, _ = apply_batch(table, batches[number], number)
            records |= batches[number]
        present = table
        step = next_step(ranges(present), cuts, lambda file, of=present: sorted(of[file.path]))
        if step is None and number > max(batches, default=0):
            break
        if step is not None:
            table = take_step(table, step, number)
    assert all(len(group) == 1 for group in overlapping(ranges(table)))
    assert sorted(i for ids in table.values() for i in ids) == sorted(records)


# -- the tables


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch, records=60) as pipeline:
        pipeline.sync()
        yield pipeline


def files_of(pipeline: QuietPipeline) -> dict[str, DataFile]:
    state = CurrentState.open(pipeline.warehouse, ENTITY)
    assert state is not None
    return state.files()


def assert_apart(pipeline: QuietPipeline) -> None:
    assert all(len(group) == 1 for group in overlapping(id_ranges(list(files_of(pipeline).values()))))


def maintained(pipeline: QuietPipeline) -> dict[str, TableDone]:
    return {done.table: done for done in maintain(pipeline.warehouse, Retention(7), pipeline.clock.now_ms())}


def test_one_event_rewrites_the_one_overlapping_file_that_holds_its_record(pipeline: QuietPipeline) -> None:
    deal_out(pipeline.warehouse, STATE, 4)
    before = files_of(pipeline)
    record_id = pipeline.ids()[20]
    pipeline.update(record_id, Site="moved out")
    pipeline.catch_up()
    after = files_of(pipeline)
    assert len(before.keys() - after.keys()) == 1
    written = [file for path, file in after.items() if path not in before]
    assert sum(file.rows for file in written) == 15
    assert max(file.rows for file in written) <= MOST, "in pieces"
    pipeline.assert_equal()
    assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))


def test_one_large_file_is_written_again_in_pieces(pipeline: QuietPipeline) -> None:
    compact(DeltaTable(pipeline.warehouse.uri(STATE)))
    assert len(files_of(pipeline)) == 1
    pipeline.update(pipeline.ids()[0], Site="the first")
    pipeline.catch_up()
    assert max(file.rows for file in files_of(pipeline).values()) <= MOST
    assert_apart(pipeline)
    pipeline.assert_equal()


def test_batches_of_every_kind_are_right_on_files_that_overlap(pipeline: QuietPipeline) -> None:
    deal_out(pipeline.warehouse, STATE, 5)
    changed, deleted, *_ = pipeline.ids()
    pipeline.update(changed, Name="changed", Description="long " * 500)
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, deleted)
        work.create(ENTITY, {"Name": "new among them"})
    pipeline.catch_up()
    pipeline.assert_equal()
    deal_out(pipeline.warehouse, STATE, 3)
    pipeline.sync()
    pipeline.assert_equal()
    assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))


def test_maintenance_separates_what_overlaps_and_changes_no_row(pipeline: QuietPipeline) -> None:
    deal_out(pipeline.warehouse, STATE, 7)
    pipeline.update(pipeline.ids()[9], Site="between")
    pipeline.catch_up()
    before = sorted(rows_of(pipeline.warehouse, STATE), key=str)
    done = maintained(pipeline)[STATE]
    assert done.problem is None
    assert done.separated >= 7
    assert f"{done.separated} files with overlapping Ids separated" in str(done)
    assert_apart(pipeline)
    assert sorted(rows_of(pipeline.warehouse, STATE), key=str) == before
    assert maintained(pipeline)[STATE].separated == 0
    pipeline.update(pipeline.ids()[9], Site="afterwards")
    pipeline.catch_up()
    pipeline.assert_equal()


def test_a_file_that_a_batch_replaced_meanwhile_is_left_to_it(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    deal_out(pipeline.warehouse, STATE, 4)
    commit, ids = separate_module.commit_packed, iter(pipeline.ids()[:BATCHES_MEANWHILE])

    def after_a_batch(*arguments: object) -> object:
        if (record_id := next(ids, None)) is not None:
            pipeline.update(record_id, Site="at the same time")
            pipeline.catch_up()
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(separate_module, "commit_packed", after_a_batch)
    assert separate(pipeline.warehouse, STATE).given_up >= 1
    assert_apart(pipeline)
    pipeline.catch_up()
    pipeline.assert_equal()


def test_files_without_statistics_are_taken_to_hold_any_id(pipeline: QuietPipeline) -> None:
    state = CurrentState.open(pipeline.warehouse, ENTITY)
    assert state is not None
    root, without_statistics = pipeline.warehouse.folder / STATE, []
    for path, file in state.files().items():
        (root / f"untold-{path}").write_bytes((root / path).read_bytes())
        without_statistics.append(NewFile(f"untold-{path}", file.size, json.dumps({"numRecords": file.rows})))
    state.table.pack_files([PackedFiles(without_statistics, list(state.files().values()))])
    pipeline.update(pipeline.ids()[3], Site="found all the same")
    pipeline.catch_up()
    pipeline.assert_equal()
    assert maintained(pipeline)[STATE].problem is None
    assert_apart(pipeline)
    pipeline.assert_equal()


@settings(max_examples=5, deadline=None)
@given(st.integers(2, 12))
def test_a_cut_window_reads_what_the_whole_file_has_there(tmp_path_factory: pytest.TempPathFactory, cuts: int) -> None:
    folder = tmp_path_factory.mktemp("file")
    rows = pl.DataFrame({"Id": [f"{number * 7 % 1000:03}" for number in range(1000)], "n": list(range(1000))})
    rows.write_parquet(folder / "one.parquet", row_group_size=100)
    store = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    ends: list[str | None] = ["", *sorted(rows["Id"].to_list())[:: 1000 // cuts][1:], None]
    found = [
        part
        for lower, upper in itertools.pairwise(ends)
        for part in range_rows.rows_within(store, "one.parquet", rows.schema, KeyRange(0, lower or "", upper))
    ]
    assert pl.concat(found).sort("n").equals(rows)
