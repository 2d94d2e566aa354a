"""Landing needs no describe, and no schema that it does not have: one object's failure stays with that object."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_changes import Remembered
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables import schemas
from sfcdc_assets.lake.tables.schemas import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Schemas, describe_of, schema_of_id
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import landing_of
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.schema_evolution.describe_cache import follow_describes
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


def table_of_schemas(org: Stream) -> Table:
    table = Table.open(org.warehouse, "schemas")
    assert table is not None
    return table


def described(org: Stream, seconds: float) -> int:
    """How many requests it takes to follow the describes of Account for so long, every 5 seconds."""
    calls, until = org.connected.session.calls, org.clock() + seconds * 1000
    while org.clock() < until:
        follow_describes(run_on(org.warehouse, org.connected), ["Account"], HOUR_MS)
        clock.sleep(5)
    return org.connected.session.calls - calls


def test_two_schemas_that_take_turns_are_looked_up_and_noted_once(tmp_path: Path) -> None:
    with stream(tmp_path, records=5) as org:
        org.update(1, Name="one")
        org.poll_until_settled()
        org.org.setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda _: "x")
        org.update(2, Name="two")
        org.poll_until_settled()
        one, two = org.landed()
        assert one["schema_id"] != two["schema_id"]
        landing = landing_of(org.warehouse, org.connected, CHANNEL)
        checkpoint, _ = landing.checkpoint()
        calls, table = org.connected.session.calls, table_of_schemas(org)
        for number in range(40):
            row = (one, two)[number % 2]
            event = DeliveredEvent(f"e{number}", row["schema_id"], row["payload"], b"r%d" % number, org.clock())
            resume = ResumePoint(b"r%d" % number)
            checkpoint = landing.commit(checkpoint, [event], resume, complete=False, report=LandingReport(CHANNEL))
            clock.sleep(5)
        assert org.connected.session.calls == calls
        after = table_of_schemas(org)
        assert after.count() == table.count()
        assert after.version - table.version <= 6, "pauses grow: 5, 10, 20, 40, 80 s"


def test_a_schema_that_is_back_has_its_object_described(synced: EmulatedPipeline) -> None:
    account = ids(synced.org, "Account")[0]
    synced.org.setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda _: "x")
    for name in ("with the field", "without"):
        with synced.org.transaction() as work:
            work.update("Account", account, {"Name": name})
        synced.sync()
        if name == "with the field":
            assert synced.rows("Account")[account]["Region__c"] == "x"
            synced.org.setup.drop_field("Account", "Region__c")
    schemas = Schemas(Warehouse(str(synced.warehouse))).of_entity("Account")
    assert schemas[-1].describe is not None
    assert "Region__c" not in schemas[-1].describe.field_names
    assert synced.rows("Account")[account]["Name"] == "without"


@pytest.mark.parametrize("failure", ["the schema", "describe fails", "describe is garbage", "no requests left"])
def test_what_cannot_be_asked_about_one_object_keeps_no_event_from_landing_and_no_other_object_from_its_tables(
    synced: EmulatedPipeline, failure: str
) -> None:
    synced.settled_tick()
    synced.org.setup.add_field("Account", "Region__c", {"type": "string", "length": 40}, values=lambda _: "x")
    path = "/sobjects/Account/describe"
    if failure == "the schema":
        synced.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    elif failure == "no requests left":
        synced.server.rest_faults.arm(RestFault.REQUEST_LIMIT, 10**6)
    else:
        fault = RestFault.SERVER_ERROR if failure == "describe fails" else RestFault.GARBAGE
        synced.server.rest_faults.arm(fault, 10**6, path=path)
    before = len(synced.scan("raw_events"))
    with synced.org.transaction() as work:
        work.update("Account", ids(synced.org, "Account")[0], {"Region__c": "x"})
    contacts = ids(synced.org, "Contact")
    for number in range(10):
        with synced.org.transaction() as work:
            work.update("Contact", contacts[number], {"Title": f"x{number}"})
    _ticks(synced, 3)
    landed = Counter(row["entity_name"] for row in synced.scan("raw_events"))
    assert sum(landed.values()) - before == 11
    assert synced.rows("Contact")[contacts[9]]["Title"] == "x9"
    synced.server.faults.disarm()
    synced.server.rest_faults.disarm()
    clock.sleep(LONGEST_PAUSE_MS / 1000)
    with synced.org.transaction() as work:
        work.update("Account", ids(synced.org, "Account")[1], {"Region__c": "y"})
    _ticks(synced, 4)
    synced.sync()
    synced.assert_equal_to_the_org()


def _ticks(synced: EmulatedPipeline, times: int) -> None:
    for _ in range(times):
        clock.sleep(15)
        failed = outcome_of(synced.tick)
        assert "Contact" not in str(failed), "the entity that cannot be described fails, and only that one"


def test_a_describe_that_fails_is_tried_again_after_growing_pauses_and_at_once_when_it_works(tmp_path: Path) -> None:
    with stream(tmp_path, records=5) as org:
        seen = org.connected.describe("Account")
        assert seen is not None
        schema = org.connected.newest_schema("Account", seen, org.clock())
        Schemas(org.warehouse).add(schema)
        clock.sleep(2 * HOUR_MS / 1000)
        org.server.rest_faults.arm(RestFault.GARBAGE, 10**6, path="/sobjects/Account/describe")
        spent = described(org, 6 * 3600)
        assert 10 <= spent <= 20, "5 s doubling to an hour"
        org.server.rest_faults.disarm()
        assert 1 <= described(org, 3700) <= 2
        assert Schemas(org.warehouse).is_due(describe_of("Account"), org.clock())


def test_pauses_are_known_to_every_process_and_forgotten_with_the_first_answer(tmp_path: Path) -> None:
    warehouse, subject, now_ms = Warehouse(str(tmp_path)), schema_of_id("S"), 1_700_000_000_000
    for tries in range(14):
        assert Schemas(warehouse).is_due(subject, now_ms)
        Schemas(warehouse).add(in_vain=[subject], now_ms=now_ms)
        pause = min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2**tries)
        assert not Schemas(warehouse).is_due(subject, now_ms + pause - 1)
        assert Schemas(warehouse).is_due(schema_of_id("T"), now_ms)
        now_ms += pause
    Schemas(warehouse).add(in_vain=[subject], now_ms=now_ms)
    Schemas(warehouse).add(described={}, in_vain=[], now_ms=now_ms)
    assert not Schemas(warehouse).is_due(subject, now_ms)


@pytest.mark.parametrize("damaged", ["*.parquet", "_delta_log/*.json"])
@pytest.mark.parametrize("channel", [CHANNEL, "/event/Order_Event__e", "/topic/Energetic"])
def test_a_damaged_table_of_schemas_keeps_no_event_from_landing_and_the_org_is_asked_for_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channel: str, damaged: str
) -> None:
    def change(number: int) -> None:
        org.update(number, Name=f"Name {number}")
        org.server.publisher.publish("Order_Event__e", {"Order_Number__c": str(number)})

    def land() -> int:
        """By a process that was begun just now."""
        monkeypatch.setattr(schemas, "_FILES", {})
        monkeypatch.setattr(schemas, "_READ", Remembered(10))
        with Poller(org.warehouse, org.connected, SETTLE, POLL) as poller:
            return poller.land(channel).count

    with stream(tmp_path, records=5) as org:
        topic = {"Name": "Energetic", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 52.0}
        org.server.cometd.topics.push_topics.create(topic)
        land()
        change(1)
        assert land() == 1
        for file in (org.warehouse.folder / "schemas").glob(damaged):
            file.write_bytes(b"damaged")
        clock.sleep(60)
        change(2)
        assert land() == 1
        rows = org.landed() if channel == CHANNEL else landed_rows(org.warehouse, channel)
        assert [row["position"] for row in rows] == [1, 2]
        assert all(row.get("_problem") is None for row in rows)
        with pytest.raises(TableDamaged):
            Schemas(org.warehouse)
