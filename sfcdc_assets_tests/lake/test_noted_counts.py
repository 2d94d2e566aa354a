"""What is reported of a table's rows without reading them is what counting all gives, and never a stale number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.key_ranges.data_file import write_table
from sfcdc_assets.key_ranges.range_rows import RowCounts
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.current_state import CurrentState, noted_counts
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.version_columns import current_state_schema
from sfcdc_assets_tests.examples import examples

ENTITY, CHANNEL = "Account", "/data/ChangeEvents"
NAME = f"current_state/{ENTITY}"
SCHEMA = current_state_schema([ID_COLUMN])
FLAGS = (True, False, None)


def rows(*flags: tuple[bool | None, bool | None], first: int = 0) -> pa.Table:
    """A row for each pair of `_is_deleted` and `_in_doubt`."""
    made = [
        {"Id": f"001{first + number:015}", "_is_deleted": deleted, "_in_doubt": suspects}
        for number, (deleted, suspects) in enumerate(flags)
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


class State:
    """One entity's table, and a writer of batches."""

    def __init__(self, folder: str) -> None:
        self.warehouse = Warehouse(folder)
        CurrentState.open_or_create(self.warehouse, ENTITY, [ID_COLUMN])

    @property
    def newest(self) -> CurrentState:
        found = CurrentState.open(self.warehouse, ENTITY)
        assert found is not None
        return found

    def batch(self, new: pa.Table, *, whole: bool = False, of_older_release: bool = False) -> None:
        """Put rows in the place of one file's, or of all."""
        state = self.newest
        files = sorted(state.files().values(), key=lambda file: file.path)
        removed = files if whole else files[:1]
        gone = RowCounts.of(state.table.read_files([file.path for file in removed], SCHEMA.names))
        present = noted_counts(state.table)
        counts = RowCounts.of(new) if whole else present and present + RowCounts.of(new) - gone
        written = write_table(new, self.warehouse.filesystem(NAME))
        added = [NewFile(written.path, written.size, written.statistics)]
        checkpoint = replace(state.checkpoint(CHANNEL), batch=state.checkpoint(CHANNEL).batch + 1)
        state.commit(added, removed, CHANNEL, checkpoint, None if of_older_release else counts, {})

    def counted(self) -> RowCounts:
        """By reading every row, as any other program does."""
        found = pl.DataFrame(DeltaTable(self.warehouse.uri(NAME)).to_pyarrow_table())
        flagged = (int(found[flag].fill_null(False).sum()) for flag in ("_is_deleted", "_in_doubt"))
        return RowCounts(found.height, *flagged)

    def packed_by_others(self) -> None:
        DeltaTable(self.warehouse.uri(NAME)).optimize.compact()

    def log_cleaned_up(self) -> None:
        table = DeltaTable(self.warehouse.uri(NAME))
        table.create_checkpoint()
        for commit in Path(self.warehouse.uri(NAME), "_delta_log").glob("*.json"):
            if int(commit.stem) < table.version():
                commit.unlink()

    def fenced(self) -> None:
        self.newest.fence()

    def given_a_column(self) -> None:
        self.newest.table.add_columns([pa.field(f"column_{self.newest.table.version}", pa.string())])

    def maintained(self) -> None:
        list(maintain(self.warehouse, Retention(7), 1_800_000_000_000))


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(str(tmp_path))


BATCHES = st.tuples(
    st.lists(st.tuples(st.sampled_from(FLAGS), st.sampled_from(FLAGS)), min_size=1, max_size=4),
    st.fixed_dictionaries({"whole": st.booleans(), "of_older_release": st.sampled_from([False, False, False, True])}),
)
OTHERS = st.sampled_from(["packed_by_others", "log_cleaned_up", "fenced", "given_a_column", "maintained"])


@settings(max_examples=examples(0.25), deadline=None)
@given(st.lists(st.one_of(BATCHES, BATCHES, OTHERS), max_size=7))
def test_the_counts_are_those_of_all_rows_whatever_was_done_to_the_table(
    steps: list[tuple[list[tuple[bool | None, bool | None]], Mapping[str, bool]] | str],
) -> None:
    with TemporaryDirectory() as folder:
        state, number = State(folder), 0
        for step in steps:
            if isinstance(step, str):
                getattr(state, step)()
            else:
                state.batch(rows(*step[0], first=number), **step[1])
            number += 10
            assert state.newest.counts() == state.counted()
            noted = noted_counts(state.newest.table)
            assert noted in (None, state.counted())
            if step == "maintained":
                assert noted is not None


@contextmanager
def rows_out_of_reach(state: State) -> Iterator[None]:
    """Every data file has as many bytes as before, of which none can be read."""
    files = {path: path.read_bytes() for path in Path(state.warehouse.uri(NAME)).glob("*.parquet")}
    for path, content in files.items():
        path.write_bytes(bytes(len(content)))
    yield
    for path, content in files.items():
        path.write_bytes(content)


def test_no_row_is_read_of_a_table_whose_last_batch_noted_its_counts(state: State) -> None:
    state.batch(rows((True, False), (False, True), (False, False)), whole=True)
    with rows_out_of_reach(state):
        assert state.newest.counts() == RowCounts(rows=3, deleted=1, suspects=1)


def test_counts_that_an_older_release_did_not_move_on_are_not_believed(state: State) -> None:
    state.batch(rows((True, True)), whole=True)
    state.batch(rows((False, False)), whole=True, of_older_release=True)
    assert noted_counts(state.newest.table) is None
    assert state.newest.counts() == RowCounts(rows=1)


def test_counts_are_not_believed_of_a_table_from_which_somebody_else_removed_rows(state: State) -> None:
    state.batch(rows((True, False), (False, False)), whole=True)
    DeltaTable(state.warehouse.uri(NAME)).delete("_is_deleted")
    assert state.newest.counts() == RowCounts(rows=1)


def test_maintenance_notes_the_counts_of_a_table_that_an_older_release_wrote_and_batches_go_on(state: State) -> None:
    state.batch(rows((True, False), (False, True)), whole=True, of_older_release=True)
    state.maintained()
    version = state.newest.table.version
    state.maintained()
    assert state.newest.table.version == version, "there was nothing to note"
    state.batch(rows((False, False), first=10))
    with rows_out_of_reach(state):
        assert state.newest.counts() == RowCounts(rows=1)


def test_a_checkpoint_of_a_batch_says_nothing_of_counts_that_are_not_known(state: State) -> None:
    state.newest.commit([], [], CHANNEL, Checkpoint(batch=1), None, {})
    assert noted_counts(state.newest.table) is None
