"""The parts of an org while it is served: what the control resource and the org's pages look at and change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.event_feed import EventFeed
from sfcdc_assets.emulator.faults.faults import Faults
from sfcdc_assets.emulator.faults.rest_faults import RestFaults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.record_editing import RecordEditing
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.scenarios.player import ScenarioStage
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets.emulator.traffic.traffic_switch import TrafficSwitch


@dataclass(frozen=True)
class RunningOrg:
    """One served org. Holds no secret that `org` does not."""

    org: EmulatedOrg
    bus: EventBus
    service: PubSubService
    cometd: CometdService
    sessions: Sessions
    faults: Faults
    """Of calls, streams and events."""
    rest_faults: RestFaults
    feed: EventFeed
    editing: RecordEditing
    scenarios: ScenarioStage
    traffic: TrafficSwitch
    allowances: Callable[[], Mapping[str, tuple[int, int]]]
    """Allowance -> most allowed, remaining (which may be negative): those that are counted here."""
    settings_file: Path
    """The `org.env` of its clients."""
