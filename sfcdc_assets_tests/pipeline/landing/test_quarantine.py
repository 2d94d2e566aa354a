"""Events that cannot be decoded are kept aside with the reason, and the stream goes on."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.process_death import Died

pytestmark = pytest.mark.slow


def payload(pipeline: EmulatedPipeline, number: int) -> bytes:
    """An event's bytes as the org's bus has them."""
    (row,) = pipeline.org.database.rows("SELECT payload FROM _bus_event WHERE number = ?", (number,))
    return row[0]


@pytest.mark.parametrize("fault", [Fault.GARBLED_HEADER, Fault.GARBLED_BODY])
def test_an_undecodable_event_is_quarantined_and_the_stream_goes_on(synced: EmulatedPipeline, fault: Fault) -> None:
    first, broken, last = ids(synced.org, "Account")[:3]
    with synced.org.transaction() as one:
        one.update("Account", first, {"Name": "before"})
    synced.server.faults.arm(fault)
    with synced.org.transaction() as one:
        one.update("Account", broken, {"Name": "cannot be read"})
    with synced.org.transaction() as one:
        one.update("Account", last, {"Site": "after"})
        one.update("Contact", ids(synced.org, "Contact")[0], {"Title": "of the next transaction"})

    synced.tick()

    (kept,) = synced.scan("quarantine")
    assert (kept["channel"], kept["position"], kept["payload"]) == (CHANNEL, 2, payload(synced, 2))
    assert kept["error"]
    assert kept["schema_id"] == synced.server.bus.newest_schema_id("Account")
    synced.assert_equal_to_the_org(["Contact"])

    synced.sync()
    assert synced.scan("quarantine") == [kept]
    positions = {event["position"] for event in synced.scan("raw_events")} | {kept["position"]}
    assert positions == {1, 2, 3, 4}


def test_an_event_in_a_schema_the_org_does_not_give_out_does_not_stop_the_stream(synced: EmulatedPipeline) -> None:
    database = synced.org.database
    with synced.org.transaction() as one:
        one.update("Account", ids(synced.org, "Account")[0], {"Name": "in an unknown schema"})
    with database.transaction():
        database.execute("UPDATE _bus_event SET schema_id = 'AAAAAAAAAAAAAAAAAAAAAA' WHERE number = 1")
    with synced.org.transaction() as one:
        one.update("Contact", ids(synced.org, "Contact")[0], {"Title": "goes on"})
    synced.tick()
    synced.assert_equal_to_the_org(["Contact"])
    assert [row["position"] for row in synced.scan("quarantine")] == [1]


def test_no_position_is_given_to_two_events_when_landing_died_between_its_commits(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is in quarantine at a position that was never given out; it comes again, and is given another one."""

    def die(*_: object, **__: object) -> None:
        raise Died

    account = ids(synced.org, "Account")[0]
    synced.server.faults.arm(Fault.GARBLED_HEADER)
    with synced.org.transaction() as one:
        one.update("Account", account, {"Name": "cannot be read"})
    with monkeypatch.context() as patch:
        patch.setattr(RawEvents, "commit", die)
        with pytest.raises(Died):
            synced.sensor_tick()
    OPEN_CHANNELS.close()
    RawEvents.open(Warehouse(str(synced.warehouse))).skip_to(CHANNEL, 1)
    with synced.org.transaction() as one:
        one.update("Account", account, {"Site": "after it"})
    synced.sync()
    assert [row["position"] for row in synced.scan("quarantine")] == [2]
    assert {event["position"] for event in synced.scan("raw_events")} == {3}
    synced.assert_equal_to_the_org()
