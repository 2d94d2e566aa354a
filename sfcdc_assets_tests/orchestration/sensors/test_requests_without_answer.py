"""One resource of the org's REST side answers garbage, or with an error that no documentation has: what has landed is
applied all the same, also by a process that was just started."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.entities.entities import entity_channels
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.channel_members import NAME, noted_members
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshot_plan import why_no_copy_began
from sfcdc_assets.orchestration.jobs import SNAPSHOT
from sfcdc_assets.orchestration.sensors.due import LOOK_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers, start_caught_up, want_a_copy
from sfcdc_assets_tests.pipeline.broken_log import break_log
from sfcdc_assets_tests.pipeline.failures.ways_to_fail import ALWAYS
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream
from sfcdc_assets_tests.silent_org import black_hole

pytestmark = pytest.mark.slow

WAYS = (
    RestFault.GARBAGE,
    RestFault.BODY_CUT,
    RestFault.SERVER_ERROR,
    RestFault.UNAVAILABLE,
    RestFault.UNAUTHORIZED,
)
LOGINS_AN_HOUR = 12
LOGIN = "POST /services/oauth2/token"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """A process that was just started, on tables that equal the org."""
    without_spark(monkeypatch, Random(5))
    with stream(tmp_path, records=4, entities=("Account", "Contact")) as weather, code_servers(weather) as start:
        start_caught_up(start).die()
        yield start()


def reasons(weather: Stream, entity: str) -> list[Reason]:
    """Of the open entries about it."""
    ledger = Ledger.open(weather.warehouse, entity)
    return [suspect.reason for suspect in ledger.open_suspects()] if ledger is not None else []


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


@pytest.mark.parametrize("path", ["/tooling", "/limits"])
def test_a_resource_that_refuses_every_token_costs_few_logins(
    server: CodeServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    weather = server.stream
    want_a_copy(weather, "Contact")
    requests = Requests(weather.server, monkeypatch)
    weather.server.rest_faults.arm(RestFault.UNAUTHORIZED, ALWAYS, path=path)
    server.ticks_and_runs(3_600)
    assert 1 < requests.take_all().count(LOGIN) <= LOGINS_AN_HOUR


@pytest.mark.parametrize("way", [*WAYS, RestFault.REQUEST_LIMIT, RestFault.TIMEOUT])
def test_objects_are_copied_and_channels_begun_whatever_counts_and_allowances_are_answered_with(
    tmp_path: Path, way: RestFault
) -> None:
    with stream(tmp_path, records=2) as weather, ExitStack() as stack:
        if way is RestFault.TIMEOUT:
            stack.enter_context(black_hole(lambda url: "/limits" in url))
        else:
            weather.server.rest_faults.arm(way, ALWAYS, path="/limits")
        assert weather.connected.record_counts(["Account", "Contact"]) == {}
        assert weather.connected.delivery_allowance() is None


def test_an_entity_whose_snapshot_is_damaged_stops_no_other_while_the_list_of_members_cannot_be_had(
    server: CodeServer,
) -> None:
    weather = server.stream
    break_log(weather.warehouse.folder, "snapshot/Contact")
    weather.server.rest_faults.arm(RestFault.GARBAGE, ALWAYS, path="/tooling")
    weather.update(1, Phone="meanwhile")
    named = 0
    for _ in range(12):
        try:
            server.ticks_and_runs(5)
        except TableDamaged as damage:  # a run names it when all else is done
            named += damage.table == "snapshot/Contact"
    assert named
    assert "meanwhile" in phones(server)


def test_what_was_noted_of_members_is_damaged_and_changes_are_applied_and_nothing_is_concluded(
    server: CodeServer, caplog: pytest.LogCaptureFixture
) -> None:
    weather = server.stream
    weather.org.selected_entities.remove("Contact")
    server.ticks_and_runs(MEMBERS_SECONDS + 60)
    assert reasons(weather, "Contact") == [Reason.OFF_CHANNEL]
    break_log(weather.warehouse.folder, NAME)
    server.die()
    server.ticks_and_runs(60)
    weather.update(1, Phone="meanwhile")
    results = server.ticks_and_runs(60)
    assert "meanwhile" in phones(server)
    assert "Table channel_members is damaged" in caplog.text
    assert reasons(weather, "Contact") == [Reason.OFF_CHANNEL]
    asked_for = {request.job_name for result in results for request in result.run_requests or ()}
    assert ASSETS.name(SNAPSHOT) not in asked_for, "one that is off its channel is not copied: it would stay as it is"
    (damage,) = status_of(weather.warehouse, load_settings()).damaged
    assert (damage.table, damage.entity) == (NAME, None)
    assert "remove the folder channel_members" in damage.message

    shutil.rmtree(weather.warehouse.folder / NAME)
    weather.org.selected_entities.append("Contact")
    server.ticks_and_runs(2 * MEMBERS_SECONDS)
    assert reasons(weather, "Contact") == []
    assert set(noted_members(weather.warehouse, CHANNEL)) == {"Account", "Contact"}


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
