"""One resource of the org's REST side answers garbage, or with an error that no documentation has: what has landed is
applied all the same, also by a process that was just started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshot_plan import why_no_copy_began
from sfcdc_assets.orchestration.sensors.due import LOOK_SECONDS
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers, start_caught_up, want_a_copy
from sfcdc_assets_tests.pipeline.failures.ways_to_fail import ALWAYS
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.lives.lives_in_process import without_spark
from sfcdc_assets_tests.pipeline.lives.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, stream

__all__ = ["no_settings_but_the_tests_own"]

WAYS = (RestFault.GARBAGE, RestFault.BODY_CUT, RestFault.SERVER_ERROR)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """A process that was just started, on tables that equal the org."""
    without_spark(monkeypatch, Random(5))
    with stream(tmp_path, records=4, entities=("Account", "Contact")) as weather, code_servers(weather) as start:
        start_caught_up(start).die()
        yield start()


def phones(server: CodeServer) -> set[str]:
    return {row["Phone"] for row in rows_of(server.stream.warehouse, "current_state/Account")}


@pytest.mark.parametrize("way", WAYS)
def test_the_copied_objects_are_followed_whatever_the_list_of_members_is_answered_with(
    server: CodeServer, way: RestFault
) -> None:
    weather = server.stream
    weather.server.rest_faults.arm(way, ALWAYS, path="/tooling")
    weather.update(1, Phone="meanwhile")
    server.ticks_and_runs(60)
    assert "meanwhile" in phones(server)
    known = entity_channels(weather.warehouse, [CHANNEL], [], weather.connected.members)  # as a run asks
    assert known == {"Account": CHANNEL, "Contact": CHANNEL}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_waits_and_events_are_applied_whatever_the_allowances_are_answered_with(
    server: CodeServer, way: RestFault
) -> None:
    weather = server.stream
    want_a_copy(weather, "Contact")
    weather.server.rest_faults.arm(way, ALWAYS, path="/limits")
    weather.update(1, Phone="meanwhile")
    server.ticks_and_runs(60)
    assert "meanwhile" in phones(server)
    assert why_no_copy_began(weather.warehouse) is not None
    weather.server.rest_faults.disarm()
    server.ticks_and_runs(60 + 3 * LOOK_SECONDS)
    ledger = Ledger.open(weather.warehouse, "Contact")
    assert ledger is not None
    assert not ledger.open_suspects()
