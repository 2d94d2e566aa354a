"""Which commit landed an event is read from the log of its table, as far as that goes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landing_commit import landing_commits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint

CHANNEL, NAME = "/u/Orders", "generic_events/Orders"


def landed(warehouse: Warehouse, batches: Sequence[tuple[int, str]]) -> None:
    """Commits of so many events, by a run or by none; what other commits there may be lies between them."""
    position = 0
    for count, run_id in batches:
        position += count
        table = EventTable.open_or_create(warehouse, CHANNEL)
        table.commit(table.table.schema.empty_table(), StreamCheckpoint(CHANNEL, position, position), run_id)
        table.note(StreamCheckpoint(CHANNEL, position, position))
        table.table.add_columns([pa.field(f"column_{position}", pa.string())])


def test_each_position_has_its_commit_with_the_events_of_it_and_the_run(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    landed(warehouse, [(2, ""), (1, "a"), (5, "b"), (3, "")])
    found = landing_commits(warehouse, NAME, CHANNEL, range(0, 13))
    said = {position: (each.first, each.last, each.run_id) for position, each in found.items() if position > 0}
    assert said == {
        **dict.fromkeys([1, 2], (1, 2, None)),
        3: (3, 3, "a"),
        **dict.fromkeys(range(4, 9), (4, 8, "b")),
        **dict.fromkeys(range(9, 12), (9, 11, None)),
    }
    assert [found[position].version for position in (1, 3, 4, 9)] == [1, 4, 7, 10]


@pytest.mark.parametrize("removed", range(1, 8))
def test_a_commit_that_the_log_has_no_longer_is_not_guessed(tmp_path: Path, removed: int) -> None:
    warehouse = Warehouse(str(tmp_path))
    landed(warehouse, [(2, ""), (1, "a"), (5, "b")])
    whole = landing_commits(warehouse, NAME, CHANNEL, range(1, 9))
    for version in range(removed):
        (tmp_path / NAME / "_delta_log" / f"{version:020}.json").unlink()
    found = landing_commits(warehouse, NAME, CHANNEL, range(1, 9))
    assert all(whole[position] == each for position, each in found.items())
    # Where the events of a commit begin is said by the note before it, two versions earlier.
    assert {each.version for each in found.values()} == {version for version in (4, 7) if removed <= version - 2}


def test_a_channel_that_never_landed_has_none(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    landed(warehouse, [(2, "")])
    assert landing_commits(warehouse, NAME, "/u/Other", [1]) == {}
    assert landing_commits(warehouse, "generic_events/Other", CHANNEL, [1]) == {}
