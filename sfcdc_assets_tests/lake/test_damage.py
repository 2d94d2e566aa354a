"""A table that is damaged, or cannot be written, is said in one sentence: table, entity, file, and what mends it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged, TableNotWritten
from sfcdc_assets.lake.tables.damage import damage_of
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets_tests.lake.test_raw_events import CHANNEL, events

SCHEMA = pa.schema([("Id", pa.string()), ("Name", pa.string())])
STATE = "current_state/Account"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Two files of `current_state/Account`, and events of two entities."""
    made = Warehouse(str(tmp_path / "warehouse"))
    table = Table.open_or_create(made, STATE, SCHEMA)
    for name in ("a", "b"):
        rows = {"Id": [f"{name}{n}" for n in range(5000)], "Name": [os.urandom(8).hex() for _ in range(5000)]}
        table.append(pa.table(rows, schema=SCHEMA), {}, {})
    RawEvents.open(made).commit(events(1, 2), StreamCheckpoint(CHANNEL, 2, 2))
    RawEvents.open(made).commit(events(3, entity="Contact"), StreamCheckpoint(CHANNEL, 3, 3))
    return made


def file_of(warehouse: Warehouse, name: str) -> Path:
    return sorted((warehouse.folder / name).glob("*.parquet"))[0]


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(2000) + content[2100:])


@pytest.mark.parametrize("read", [Table.scan, Table.frame])
@pytest.mark.parametrize("harm", [Path.unlink, cut_off, garble])
def test_a_damaged_file_is_reported_with_its_table_its_entity_and_the_command(
    warehouse: Warehouse, harm: Callable[[Path], None], read: Callable[[Table], object]
) -> None:
    path = file_of(warehouse, STATE)
    harm(path)
    table = Table.open(warehouse, STATE)
    assert table is not None
    with pytest.raises(TableDamaged) as raised:
        read(table)
    said = str(raised.value)
    assert f"Table {STATE} is damaged: file {path.name} cannot be read (" in said
    assert said.endswith("`sfcdc rebuild --entity Account` builds it again from what was landed.")
    assert "\n" not in said
    assert len(said) < 500
    (damage,) = damage_of(warehouse, "Account", thorough=True)
    assert (damage.table, damage.file) == (STATE, path.name)
    assert damage_of(warehouse, "Contact", thorough=True) == []


def test_a_file_that_is_gone_or_cut_off_is_found_without_reading(warehouse: Warehouse) -> None:
    cut_off(file_of(warehouse, "raw_events/entity_name=Account"))
    (damage,) = damage_of(warehouse, "Account")
    assert str(damage).startswith("Table raw_events (Account) is damaged: file entity_name=Account/part-")
    assert " bytes instead of " in str(damage)
    assert "`sfcdc rebuild --from-org --entity Account`" in str(damage)
    file_of(warehouse, "raw_events/entity_name=Contact").unlink()
    assert "is missing" in str(damage_of(warehouse, "Contact")[0])


def test_a_damaged_file_of_raw_events_is_reported_with_its_entity(warehouse: Warehouse) -> None:
    garble_or_cut = file_of(warehouse, "raw_events/entity_name=Contact")
    cut_off(garble_or_cut)
    with pytest.raises(TableDamaged, match=r"raw_events \(Contact\) is damaged: file entity_name=Contact/part-"):
        RawEvents.open(warehouse).record_ids_after("Contact", CHANNEL, 0)
    assert RawEvents.open(warehouse).record_ids_after("Account", CHANNEL, 0)


@pytest.mark.parametrize("content", ["{", "", "\0" * 100])
def test_a_log_that_cannot_be_read_is_reported_too(warehouse: Warehouse, content: str) -> None:
    for path in (warehouse.folder / STATE / "_delta_log").glob("*.json"):
        path.write_text(content)
    with pytest.raises(TableDamaged, match=rf"Table {STATE} is damaged: its log cannot be read \(") as raised:
        Table.open(warehouse, STATE)
    assert "\n" not in str(raised.value)
    assert [str(each) for each in damage_of(warehouse, "Account")] == [str(raised.value)]


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file may grow beyond a size: the system refuses to write, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("size", [0, 200])
def test_landing_where_nothing_can_be_written_is_reported_with_channel_position_and_what_to_do(
    warehouse: Warehouse, size: int
) -> None:
    raw_events = RawEvents.open(warehouse)
    with full_after(size), pytest.raises(TableNotWritten) as raised:
        raw_events.commit(events(4, 5), StreamCheckpoint(CHANNEL, 5, 4))
    said = str(raised.value)
    assert said.startswith(f"Table raw_events could not be written ({CHANNEL} at position 5): file too large.")
    assert str(warehouse.folder) in said
    assert "`sfcdc sync` continues" in said
    assert "\n" not in said
    assert RawEvents.open(warehouse).checkpoint(CHANNEL).position == 3
    RawEvents.open(warehouse).commit(events(4, 5), StreamCheckpoint(CHANNEL, 5, 4))
    assert RawEvents.open(warehouse).table.count() == 5


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a file system")
def test_a_disk_without_room_refuses_a_batch_before_a_file_is_begun(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("may not mount")
    try:
        warehouse = Warehouse(str(folder))
        RawEvents.open(warehouse).commit(events(1), StreamCheckpoint(CHANNEL, 1, 1))
        many = events(*range(2, 120))
        payloads = pa.array([os.urandom(8000) for _ in range(len(many))], pa.binary())
        many = many.set_column(many.schema.get_field_index("payload"), "payload", payloads)
        with pytest.raises(TableNotWritten, match="no space left on device"):
            RawEvents.open(warehouse).commit(many, StreamCheckpoint(CHANNEL, 120, 120))
        assert RawEvents.open(warehouse).checkpoint(CHANNEL).position == 1
        assert "panicked" not in capfd.readouterr().err
    finally:
        subprocess.run(["umount", str(folder)], check=False)
