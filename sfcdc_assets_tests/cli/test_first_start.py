"""A first start on a real org says what it takes, and on a terminal asks. An emulated org stands for a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sfcdc_assets.cli.syncing import first_start as asking
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.checkpoint import LATEST
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.doctor.set_ups import SetUp, served_org, set_up
from sfcdc_assets_tests.pipeline.stream import stream
from sfcdc_assets_tests.simulated_clock import SimulatedClock

UNUSED_PORT = 1
"""Nobody listens on it."""


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


@contextmanager
def away_for(real: SetUp, seconds: float) -> Iterator[SimulatedClock]:
    """The org gives its answers again after so long, and whoever waits for that takes no time."""
    simulated = SimulatedClock()

    def back() -> None:
        if simulated.monotonic() >= seconds:
            real.server.rest_faults.disarm()

    simulated.on_move(back)
    with clock.using(simulated):
        yield simulated


@pytest.mark.parametrize(
    ("fault", "path"),
    [
        (RestFault.UNAVAILABLE, "/services/oauth2"),
        (RestFault.UNAVAILABLE, "/services/data"),
        (RestFault.REQUEST_LIMIT, "/services/data/v"),
    ],
    ids=["login", "REST", "no request left"],
)
def test_who_watches_waits_at_the_very_first_start_for_an_org_that_is_away(
    real: SetUp, fault: RestFault, path: str
) -> None:
    real.server.rest_faults.arm(fault, 10**6, path=path)
    with away_for(real, 1_800) as simulated:
        result = sfcdc("sync", "--watch")
    assert result.stderr.count("\n") == 3, result.stderr
    waits, cost, declined = result.stderr.strip().splitlines()
    assert waits.startswith("Waits for the org, which is asked what a first start takes: The org ")
    assert cost.startswith("First start: copies 2 entities")
    assert declined.startswith("sfcdc: Nothing was read and nothing written.")
    assert 1_800 <= simulated.monotonic() < 4_000, "the pauses grow to five minutes, or from these to an hour"


@pytest.mark.parametrize("command", [("sync",), ("sync", "--watch")], ids=["sync", "watch"])
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("SFCDC_CLIENT_SECRET", "wr0ng", "refused the login"),
        ("SFCDC_INSTANCE_URL", f"https://127.0.0.1:{UNUSED_PORT}", "cannot be reached"),
        ("SFCDC_ENTITIES", "Acount", "Acount"),
    ],
)
def test_what_a_person_has_to_mend_ends_the_very_first_start_at_once(
    real: SetUp, command: tuple[str, ...], name: str, value: str, reason: str
) -> None:
    real.patch.setenv(name, value)
    with away_for(real, 0) as simulated:
        assert reason in refusal(sfcdc(*command))
    assert simulated.monotonic() < 60


def test_a_sync_waits_for_no_org_that_is_away_at_its_very_first_start(real: SetUp) -> None:
    real.server.rest_faults.arm(RestFault.UNAVAILABLE, 10**6, path="/services/oauth2")
    with away_for(real, 1_800) as simulated:
        assert "did not answer" in refusal(sfcdc("sync"))
    assert simulated.monotonic() < 300


def test_a_host_that_never_answers_ends_the_wait_for_one_that_did(real: SetUp) -> None:
    """The login is away for a while, and then leads to an instance whose address is wrong."""
    real.server.rest_faults.arm(RestFault.UNAVAILABLE, 10**6, path="/services/oauth2")
    real.patch.setenv("SFCDC_INSTANCE_URL", f"https://127.0.0.1:{UNUSED_PORT}")
    with away_for(real, 60):
        result = sfcdc("sync", "--watch")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr.strip().splitlines()[-1]
