"""The events of a bus, decoded: for tests of what the org publishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader

from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork


@dataclass(frozen=True)
class DecodedEvent:
    stored: StoredEvent
    header: dict[str, Any]
    body: dict[str, Any]

    @property
    def set_fields(self) -> set[str]:
        return {name for name, value in self.body.items() if value is not None}


class WatchedOrg:
    """An org with a bus, and what it published since one last looked."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.org = EmulatedOrg(clock=self.clock, seed=3)
        self.org.settings = replace(self.org.settings, **settings)
        self.bus = EventBus(self.org)
        self.faults = self.bus.faults
        self._seen = 0

    def commit(self, work: Callable[[UnitOfWork], object]) -> Transaction:
        with self.org.transaction() as unit_of_work:
            work(unit_of_work)
        assert unit_of_work.committed is not None
        return unit_of_work.committed

    def create(self, entity: str = "Account", **values: object) -> str:
        given = {"Name": "Acme", **values} if entity == "Account" else values
        return self.commit(lambda work: work.create(entity, given)).changes[0].record_id

    def update(self, record_id: str, entity: str = "Account", **values: object) -> Transaction:
        return self.commit(lambda work: work.update(entity, record_id, values))

    def settings(self, **settings: Any) -> None:
        self.org.settings = replace(self.org.settings, **settings)

    def stored(self) -> list[StoredEvent]:
        found = self.bus.read(self.org.definitions, after=self._seen, max_events=100_000, max_bytes=10**9)
        self._seen = found.through
        return list(found.events)

    def events(self) -> list[DecodedEvent]:
        return [self.decoded(event) for event in self.stored()]

    def decoded(self, event: StoredEvent) -> DecodedEvent:
        schema = self.bus.schema_json(event.schema_id)
        assert schema is not None
        body = schemaless_reader(BytesIO(event.payload), parse_schema(json.loads(schema)), None)
        assert isinstance(body, dict)
        return DecodedEvent(event, body.pop("ChangeEventHeader"), body)

    def bitmap(self, *fields: str, entity: str = "Account") -> list[str]:
        """The bitmap of flat field names."""
        return EventCodec(self.org.definitions[entity]).bitmap(fields)
