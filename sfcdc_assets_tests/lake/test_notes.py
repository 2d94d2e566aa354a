"""Notes beside the tables: written whole, also by many threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.store.notes import put_note, read_note, remove_note
from sfcdc_assets.lake.store.pending_events import PendingEvents, note_pending, path_of, read_pending, remove_pending
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint

PATH = "channels_read/note.json"


def test_threads_that_write_one_note_at_once_each_write_it_whole(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    contents = [bytes([number]) * 50_000 for number in range(8)]
    with ThreadPoolExecutor(len(contents)) as threads:
        list(threads.map(lambda content: [put_note(warehouse, PATH, content) for _ in range(40)], contents))
    assert read_note(warehouse, PATH) in contents
    assert [path.name for path in (tmp_path / "channels_read").iterdir()] == ["note.json"]


def test_a_folder_in_the_place_of_a_note_is_put_aside_with_what_it_holds_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before it was, the channel whose note it is could not ask for events any more."""
    warehouse, channel = Warehouse(str(tmp_path)), "/data/ChangeEvents"
    place = tmp_path / path_of(channel)
    place.mkdir(parents=True)
    (place / "somebody's").write_text("kept")
    assert read_pending(warehouse, channel) is None
    remove_pending(warehouse, channel)
    note = PendingEvents(StreamCheckpoint(channel), noted_at_ms=1)
    note_pending(warehouse, channel, note)
    assert read_pending(warehouse, channel) == note
    (aside,) = place.parent.glob("*.aside")
    assert (aside / "somebody's").read_text() == "kept"
    assert str(place) in caplog.text
    assert str(aside) in caplog.text
    remove_pending(warehouse, channel)
    assert read_note(warehouse, path_of(channel)) is None


def test_a_note_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "channels_read").write_text("a file where the folder of the notes belongs")
    warehouse = Warehouse(str(tmp_path))
    with pytest.raises(WarehouseNotWritable, match=PATH):
        put_note(warehouse, PATH, b"note")
    with pytest.raises(WarehouseNotWritable, match=PATH):
        remove_note(warehouse, PATH)
