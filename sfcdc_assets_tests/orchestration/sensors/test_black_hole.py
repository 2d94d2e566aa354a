"""An org whose REST side takes requests and answers none, while its events come: nothing waits for it for long.

What a try takes, and the pauses between tries, pass on the simulated clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import dagster as dg
import pytest

from sfcdc_assets.apply.catch_up import HEALING_SECONDS
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.orchestration.jobs.started_run import BEGINNING_SECONDS
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS, REST_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import MEMBERS_SECONDS
from sfcdc_assets.salesforce.errors import OrgUnavailable
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers, start_caught_up
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream
from sfcdc_assets_tests.silent_org import black_hole

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact", "Opportunity")
DAGSTERS_SECONDS = 60.0
"""After so long Dagster gives a tick up, and calls the code server unreachable."""
A_LITTLE = 6.0
"""What all else takes: a watermark waits for what the org may not show yet, once a round."""


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=6, entities=ENTITIES) as opened:
        yield opened


@pytest.fixture
def server(weather: Stream, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """One whose tables equal the org, and then four records of each entity are suspect."""
    monkeypatch.setenv("SFCDC_SPARK_KEPT", "false")
    without_spark(monkeypatch, Random(5))
    with code_servers(weather) as start:
        server = start_caught_up(start)
        position = RawEvents.open(weather.warehouse).checkpoint(CHANNEL).position
        for entity in ENTITIES:
            ids = [str(record["Id"]) for record in weather.org.records(entity)][:4]
            suspects = [NewSuspect(each, Reason.GAP_UPDATE, position, None) for each in ids]
            Ledger.open_or_create(weather.warehouse, entity).note(suspects, CHANNEL, position, weather.clock())
        yield server


def suspects(weather: Stream, *entities: str) -> int:
    ledgers = [Ledger.open(weather.warehouse, entity) for entity in entities]
    return sum(len(ledger.open_suspects()) for ledger in ledgers if ledger is not None)


def test_suspect_records_hold_up_no_entitys_events_for_longer_than_the_short_patience_of_a_round(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(4)
    weather.update(5)
    (request,) = server.tick().run_requests or ()
    with black_hole() as tries:
        began = weather.clock.monotonic()
        server.do(request)
        took = weather.clock.monotonic() - began
        assert tries
        assert took <= HEALING_SECONDS + A_LITTLE
        states = entity_states(weather.warehouse, dict.fromkeys(ENTITIES, CHANNEL), weather.clock())
        assert [state.applied == state.complete for state in states if state.entity == "Account"] == [True]
        assert suspects(weather, "Contact", "Opportunity") == 8
    server.ticks_and_runs(900)
    assert suspects(weather, *ENTITIES) == 0


def test_a_run_of_a_sensor_knows_its_entities_although_the_org_lists_no_members_and_says_so(
    weather: Stream, server: CodeServer, caplog: pytest.LogCaptureFixture
) -> None:
    with black_hole(), unanswered_at_most(UnansweredTime(BEGINNING_SECONDS)):
        began = weather.clock.monotonic()
        known = entity_channels(weather.warehouse, [CHANNEL], [], weather.connected.members)
        assert weather.clock.monotonic() - began <= BEGINNING_SECONDS + A_LITTLE
    assert known == dict.fromkeys(ENTITIES, CHANNEL)
    assert "cannot be asked, so the copied ones are followed: " in caplog.text


def test_a_first_run_still_says_that_the_org_does_not_answer(tmp_path: Path) -> None:
    with (
        stream(tmp_path, entities=ENTITIES) as new,
        black_hole(),
        unanswered_at_most(UnansweredTime(BEGINNING_SECONDS)),
        pytest.raises(OrgUnavailable),
    ):
        entity_channels(new.warehouse, [CHANNEL], [], new.connected.members)


@pytest.mark.parametrize("is_open", [False, True], ids=["a process that was just started", "an open channel"])
def test_a_tick_of_the_sensor_is_over_before_dagster_gives_it_up(
    weather: Stream, server: CodeServer, is_open: bool
) -> None:
    server.die()
    weather.update(3)
    with dg.build_sensor_context(server.instance, definitions=defs) as context:
        sensor = defs.resolve_sensor_def(ASSETS.name("poll_ChangeEvents"))
        try:
            if is_open:
                sensor.evaluate_tick(context)
                weather.clock.advance(round(MEMBERS_SECONDS * 1000) + 1000)
            with black_hole() as tries:
                began = weather.clock.monotonic()
                try:
                    sensor.evaluate_tick(context)
                except Exception as error:  # noqa: BLE001 - it may fail, in time
                    print(error)
                took = weather.clock.monotonic() - began
            assert tries
            assert took < DAGSTERS_SECONDS
            assert sum(tries) <= REST_SECONDS + A_LITTLE
        finally:
            OPEN_CHANNELS.close()


def test_answers_cost_nothing_of_it_and_what_failed_before_is_given_more() -> None:
    time = UnansweredTime(10.0)
    assert [time.spent_by(lambda: "an answer") for _ in range(3)] == ["an answer"] * 3
    assert time.left == 10.0
    time.lengthen(1)
    assert time.left == 20.0
    time.lengthen(9)
    assert time.left == 60.0
