"""`sfcdc status --fail-if-stale`: what is not read or not applied any more is noticed by whoever looks at the
warehouse, even if all processes that would tell of it are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.store import channel_reads
from sfcdc_assets.lake.store.channel_reads import note_read
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.staleness import stale_parts
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Entities, catch_up
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import Stream, stream

MINUTE = 60.0


@pytest.fixture(params=["pubsub", "cometd"])
def org(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    monkeypatch.setenv("SFCDC_TRANSPORT", request.param)
    with stream(tmp_path, records=5) as opened:
        yield opened


def ticks(org: Stream, reader: ChannelReader, seconds: float, every: float = 20.0) -> None:
    """A sensor at work for so long."""
    for _ in range(round(seconds / every)):
        clock.sleep(every)
        reader.land(TICK)


def stale(org: Stream, seconds: float = 10 * MINUTE) -> list[str]:
    return list(stale_parts(org.warehouse, load_settings(), seconds, clock.now_ms()))


def test_a_person_is_told_that_tables_are_up_to_date_as_of_when_the_channel_was_last_read(org: Stream) -> None:
    ticks(org, org.reader(), 10 * MINUTE)  # until a keepalive has come, at the latest
    assert "was last read at" not in sfcdc("status").stdout
    clock.sleep(50 * 60 * MINUTE)
    assert f"{CHANNEL} was last read at " in sfcdc("status").stdout


def test_a_quiet_channel_that_is_read_is_never_stale_and_that_is_noted_once_a_minute(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []

    def note(warehouse: Warehouse, channel: str, at_ms: int) -> None:
        noted.append(at_ms)
        note_read(warehouse, channel, at_ms)

    monkeypatch.setattr(channel_reads, "note_read", note)
    reader = org.reader()
    ticks(org, reader, 10 * MINUTE)  # until a keepalive has come, at the latest
    noted.clear()
    for _ in range(4):
        ticks(org, reader, 10 * MINUTE)
        assert stale(org, 2 * MINUTE) == []
    assert 38 <= len(noted) <= 41
    assert org.landed() == []


def test_a_channel_that_nobody_reads_any_more_is_named_with_since_when(org: Stream) -> None:
    reader = org.reader()
    org.update(1)
    ticks(org, reader, MINUTE)
    org.disown(reader)
    org.clock.advance(9 * 60_000)
    assert stale(org) == []
    org.clock.advance(2 * 60_000)
    (part,) = stale(org)
    assert part.startswith("/data/ChangeEvents was last read 1")
    assert "min ago (20" in part
    (channel,) = status_of(org.warehouse, load_settings()).channels
    assert channel.read_at is not None
    assert channel.read_at in part


def test_a_stream_that_has_fallen_silent_is_stale_although_its_sensor_ticks(org: Stream) -> None:
    reader = org.reader()
    org.update(1)
    ticks(org, reader, MINUTE)
    for fault in (Fault.SILENT_STREAM, Fault.COMETD_SILENCE):
        org.server.faults.arm(fault, times=100)
    for _ in range(60):
        clock.sleep(30)
        try:
            reader.land(TICK)
        except Exception:  # noqa: BLE001 - a tick that fails is followed by another one
            continue
    assert any("was last read" in part for part in stale(org))


def test_a_reading_does_not_fail_because_it_cannot_be_noted(org: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise WarehouseNotWritable("/warehouse", "no space left on device")

    monkeypatch.setattr(channel_reads, "note_read", full)
    reader = org.reader()
    ticks(org, reader, 20 * MINUTE)
    assert any("was last read" in part for part in stale(org))
    monkeypatch.undo()
    ticks(org, reader, MINUTE)
    assert stale(org) == []


@pytest.fixture
def entities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entities:
    """Two, copied; the events of years ago are landed just now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    without_spark(monkeypatch, Random(1))
    made = Entities(Warehouse(str(tmp_path / "warehouse")), ("First__c", "Second__c"), records=4)
    made.day_zero()
    made.land(1)
    catch_up(made)
    return made


def test_events_that_landed_and_wait_to_be_applied_are_stale_and_named(entities: Entities) -> None:
    done = sfcdc("status", "--fail-if-stale", "10m")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    entities.land(1)
    said = refusal(sfcdc("status", "--fail-if-stale", "10m"))
    assert "20 events of First__c wait to be applied, the oldest for " in said
    assert "20 events of Second__c wait to be applied" in said
    assert CHANNEL not in said
    catch_up(entities)
    assert sfcdc("status", "--fail-if-stale", "10m").exit_code == 0


def test_a_probe_of_a_warehouse_that_was_never_read_fails_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "warehouse"))
    said = refusal(sfcdc("status", "--fail-if-stale", "1d"))
    assert "Stale for longer than 1d: /data/ChangeEvents was never read. " in said
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.parametrize("age", ["", "10", "90s", "m", "ten", "1.5h", "-10m", "10 m"])
def test_an_age_that_is_none_or_too_short_to_be_known_is_refused(age: str) -> None:
    refused = sfcdc("status", "--fail-if-stale", age)
    assert refused.exit_code == 2
    assert "two minutes or more" in " ".join(refused.stderr.replace("│", " ").split())
