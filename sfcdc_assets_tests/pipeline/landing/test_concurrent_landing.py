"""Two that work on the same tables at once: one wins each commit, the other goes on from there, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing import land
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline

SEED = 8


def test_a_channel_landed_by_two_at_once_has_every_event_once(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {SEED}")
    monkeypatch.setattr(land, "COMMIT_EVENTS", 150)
    pipeline = make_pipeline(records=5, seed=SEED)
    TrafficGenerator(pipeline.org, SEED, bus=pipeline.server.bus).run(events=600)
    start = threading.Barrier(2, timeout=BOUND_SECONDS)

    def poll() -> bool:
        """Whether it came to an end; the other may have been first too often."""
        settings = load_settings()
        with connect(settings) as org, Poller(Warehouse(settings.warehouse), org, settings.settle_seconds) as poller:
            start.wait()
            try:
                poller.land(CHANNEL, POLL)
            except ConcurrentCommit:
                return False
            return True

    with ThreadPoolExecutor(2) as pool:
        ended = [each.result(BOUND_SECONDS) for each in (pool.submit(poll), pool.submit(poll))]

    assert any(ended)
    events = pipeline.scan("raw_events")
    assert sorted(event["position"] for event in events) == list(range(1, pipeline.server.bus.last_number + 1))
    assert len({event["event_id"] for event in events}) == len(events)
    in_order = sorted(events, key=lambda event: event["position"])
    assert [event["replay_id"] for event in in_order] == sorted(event["replay_id"] for event in events)


def test_two_syncs_at_once_end_with_the_right_rows(synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {SEED}")
    monkeypatch.setenv("SFCDC_SETTLE_SECONDS", "1")  # waited for: only the test's own thread lets time jump
    TrafficGenerator(synced.org, SEED, bus=synced.server.bus).run(events=60)
    start = threading.Barrier(2, timeout=BOUND_SECONDS)

    def run() -> tuple[bool, str]:
        # Two processes have an instance each; one in memory is not made for two threads.
        with instance_in_memory() as instance:
            own = EmulatedPipeline(synced.org, synced.server, synced.warehouse, instance)
            start.wait()
            result = own.launch("sync")
            return result.success, own.failure(result)

    with ThreadPoolExecutor(2) as pool:
        ended = [each.result(BOUND_SECONDS) for each in [pool.submit(run) for _ in range(2)]]

    assert ended == [(True, ""), (True, "")]
    synced.assert_equal_to_the_org()
    events = synced.scan("raw_events")
    assert sorted(event["position"] for event in events) == list(range(1, synced.server.bus.last_number + 1))
