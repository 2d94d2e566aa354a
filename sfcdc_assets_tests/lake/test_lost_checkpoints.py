"""Lost places are kept for good, each once, and an entity is named for as long as it was not read again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.lost_checkpoints import known_losses, lose_checkpoint
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets_tests.lake.test_raw_events import CHANNEL, events
from sfcdc_assets_tests.process_death import Died

NOW = 1_800_000_000_000


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Two landed events, and an entity that rests on the channel."""
    made = Warehouse(str(tmp_path))
    RawEvents.open(made).commit(events(1, 2), StreamCheckpoint(CHANNEL, 2, 2))
    table = Snapshots.open_or_create(made, "Account", []).table
    table.append(
        pa.Table.from_pylist([], schema=table.schema), {"snapshot": 1, "complete": 1, f"watermark on {CHANNEL}": 1}, {}
    )
    return made


def lose(warehouse: Warehouse, reason: str) -> None:
    raw_events = RawEvents.open(warehouse)
    lose_checkpoint(warehouse, raw_events, raw_events.checkpoint(CHANNEL), reason, NOW)


def test_every_lost_checkpoint_is_kept_with_who_was_not_read_again_since(warehouse: Warehouse) -> None:
    assert known_losses(warehouse, CHANNEL) == []
    lose(warehouse, "expired")
    ledger = Ledger.open_or_create(warehouse, "Account")
    ledger.heal(ledger.open_suspects(), {"*": 3}, NOW)
    lose(warehouse, "the org moved")
    newest, oldest = known_losses(warehouse, CHANNEL)
    assert (newest.checkpoint.position, newest.checkpoint.reason, newest.waiting) == (4, "the org moved", ("Account",))
    assert (oldest.checkpoint.position, oldest.checkpoint.reason, oldest.is_bridged) == (3, "expired", True)
    assert newest.checkpoint.last_landed_at is not None
    assert known_losses(warehouse, "/data/Other") == []


def test_a_crash_before_the_order_is_broken_repeats_all_and_notes_it_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(RawEvents, "lose_checkpoint", die)
        with pytest.raises(Died):
            lose(warehouse, "expired")
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).position == 2
    lose(warehouse, "expired")
    assert [loss.checkpoint.position for loss in known_losses(warehouse, CHANNEL)] == [3]
    suspects = Ledger.open_or_create(warehouse, "Account").open_suspects()
    assert [(suspect.reason, suspect.opened_position) for suspect in suspects] == [(Reason.LOST_CHECKPOINT, 3)]
