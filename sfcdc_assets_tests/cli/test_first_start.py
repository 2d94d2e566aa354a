"""A first start on a real org says what it takes, and on a terminal asks. An emulated org stands for a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.cli.syncing import first_start as asking
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.checkpoint import LATEST
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.doctor.set_ups import SetUp, served_org, set_up
from sfcdc_assets_tests.pipeline.stream import stream


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[EmulatedOrg, EmulatorServer]]:
    with served_org() as both:
        yield both


@pytest.fixture
def real(served: tuple[EmulatedOrg, EmulatorServer], tmp_path: Path) -> Iterator[SetUp]:
    """An org that is not known to be emulated, and somebody at a terminal who says no."""
    with set_up(*served, tmp_path) as one:
        one.patch.setattr(asking, "is_this_machine", lambda _: False)
        one.patch.setattr(asking, "_is_on_a_terminal", lambda: True)
        one.patch.setattr("typer.confirm", lambda *_, **__: False)
        yield one


def test_what_it_takes_is_said_before_anything_is_written(real: SetUp) -> None:
    result = sfcdc("sync")
    cost, declined = result.stderr.strip().splitlines()
    assert result.exit_code == 1
    assert cost.startswith("First start: copies 2 entities with 8 records. That takes 2 Bulk jobs (")
    assert " left today) and about 18 API requests (" in cost
    assert " event deliveries (50,000 left today) for the events of the last 72 hours" in cost
    assert declined.startswith("sfcdc: Nothing was read and nothing written. SFCDC_ENTITIES copies fewer objects")
    assert not (real.folder / "warehouse").exists()
    assert real.server.meter.total == 0


def test_a_preset_says_what_is_left_out_and_is_checked(real: SetUp) -> None:
    real.patch.setenv("SFCDC_REPLAY_PRESET", "latest")
    real.patch.setenv("SFCDC_ENTITIES", "Account")
    assert "1 entity with 4 records" in sfcdc("sync").stderr
    assert "Events of the last 72 hours are left out" in sfcdc("sync").stderr
    real.patch.setenv("SFCDC_REPLAY_PRESET", "NEWEST")
    assert "SFCDC_REPLAY_PRESET: 'NEWEST' is neither EARLIEST nor LATEST" in refusal(sfcdc("sync"))


def test_nobody_is_asked_with_yes_without_a_terminal_or_a_second_time(
    real: SetUp, capsys: pytest.CaptureFixture[str]
) -> None:
    asking.agree_to_first_start(load_settings(), yes=True)
    real.patch.setattr(asking, "_is_on_a_terminal", lambda: False)
    asking.agree_to_first_start(load_settings(), yes=False)
    assert capsys.readouterr().err.count("First start: copies 2 entities") == 2
    Snapshots.open_or_create(real.warehouse, "Account", [])
    asking.agree_to_first_start(load_settings(), yes=False)
    assert capsys.readouterr().err == ""


def test_an_emulated_org_has_its_allowances_to_spare(
    real: SetUp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    real.patch.undo()
    for name, value in real.server.client_environment().items():
        real.patch.setenv(name, value)
    asking.agree_to_first_start(load_settings(), yes=False)
    assert capsys.readouterr().err == ""


def test_from_latest_no_retained_event_is_delivered_and_no_later_one_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_REPLAY_PRESET", "LATEST")
    with stream(tmp_path, records=3) as opened:
        opened.update(0)
        reader = opened.reader()
        assert opened.tick(reader).count == 0
        assert opened.checkpoint().begun == LATEST
        opened.update(1)
        assert opened.tick(reader).count == 1
        assert opened.records_landed() == opened.ids(1)
        assert opened.delivered == 1
