"""What some simulated histories have beside change events: an object that is polled, and platform events."""

from __future__ import annotations

from random import Random

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows, without_those_gone
from sfcdc_assets_tests.pipeline.simulation.history_plan import POLLED_OBJECT
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows, rows_of, versions_of
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

EVENT = "Life_Note__e"
EVENTS = f"/event/{EVENT}"
A_STEP = 0.3
"""Share of the steps after which there is a transaction of the polled object, or an event."""


def polled_object() -> ObjectDefinition:
    """The object that no channel carries."""
    fields = [
        {"OwnerId": {"type": "reference", "to": "User", "required": True}},
        {"Name": {"type": "string", "length": 80}},
        {"Amount__c": {"type": "currency"}},
        {"Due__c": {"type": "date"}},
        {"Notes__c": {"type": "long_text"}},
    ]
    document = {"name": POLLED_OBJECT, "label": "Polled", "key_prefix": "c99", "fields": fields}
    return object_definition(document, POLLED_OBJECT)


class NothingBeside:
    """That most histories have beside change events."""

    channels: tuple[str, ...] = ()
    """Those that feed entities."""

    def live_on(self) -> None:
        """Nothing changes."""

    def miss(self, warehouse: Warehouse) -> None:
        """Nothing is missed."""

    def land(self, poller: Poller) -> None:
        """Nothing is landed."""

    def assert_equal(self, warehouse: Warehouse) -> None:
        """Nothing is compared."""


class BesideChangeEvents(NothingBeside):
    """The object's and the events' part of one history."""

    channels = (POLLED,)

    def __init__(self, org: EmulatedOrg, seed: int, server: EmulatorServer) -> None:
        fields = [{"Text__c": {"type": "string"}}, {"Size__c": {"type": "double"}}]
        org.platform_events.define(
            event_definition({"name": EVENT, "label": "Note", "key_prefix": "e09", "fields": fields})
        )
        self._org, self._publisher = org, server.publisher
        self._dice = Random(f"beside change events:{seed}")
        self._traffic = TrafficGenerator(org, seed, FULL_MIX, of=lambda: (POLLED_OBJECT,))
        self._has_landed = False
        self._missed: set[str] = set()
        """Ids of events that nobody can have landed, perhaps."""

    def live_on(self) -> None:
        """Perhaps change records, or publish an event."""
        if self._dice.random() < A_STEP:
            self._traffic.step()
        if self._dice.random() < A_STEP:
            self._publisher.publish(EVENT, {"Text__c": f"note {self._dice.random():.6f}", "Size__c": 1.5})

    def miss(self, warehouse: Warehouse) -> None:
        """Note that the place in the stream was lost, or is begun at LATEST: what has not landed may never come."""
        self._missed |= self._published() - (self._landed(warehouse) if self._has_landed else set())

    def land(self, poller: Poller) -> None:
        """Land the events."""
        poller.land(EVENTS)
        self._has_landed = True

    def assert_equal(self, warehouse: Warehouse) -> None:
        """Each event is landed once, and the polled object's table is the org. Raises AssertionError."""
        found = [row["event_id"] for row in landed_rows(warehouse, EVENTS)]
        assert len(set(found)) == len(found), "an event is landed twice"
        assert self._published() - self._missed <= set(found) <= self._published()
        rows = {row["Id"]: row for row in rows_of(warehouse, f"current_state/{POLLED_OBJECT}")}
        expected = expected_rows(self._org, POLLED_OBJECT)
        assert_same_rows(POLLED_OBJECT, without_those_gone(POLLED_OBJECT, rows, expected), expected)
        assert_versions_follow(versions_of(warehouse, POLLED_OBJECT))

    def _published(self) -> set[str]:
        return {each.event_id for each in self._publisher.published() if each.name == EVENT}

    def _landed(self, warehouse: Warehouse) -> set[str]:
        return {row["event_id"] for row in landed_rows(warehouse, EVENTS)}
