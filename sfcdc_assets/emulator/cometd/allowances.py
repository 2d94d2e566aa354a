"""How many events the Streaming API may still deliver today, by kind (Streaming API Developer Guide, "Limits").

Change events and platform events draw on one allowance with those of the Pub/Sub API; platform events of standard
volume, PushTopics and generic channels have one each.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from sfcdc_assets.emulator.events.delivery_meter import DeliveryMeter
from sfcdc_assets.emulator.org.org import EmulatedOrg


class Allowance(StrEnum):
    """What deliveries are counted against."""

    BUS = "bus"
    STANDARD_EVENTS = "standard_events"
    PUSH_TOPICS = "push_topics"
    GENERIC = "generic"


class Allowances:
    """Those of one org. `bus`: the meter that is shared with the Pub/Sub API."""

    def __init__(self, org: EmulatedOrg, bus: DeliveryMeter) -> None:
        self._org = org
        self._meters = {
            Allowance.BUS: bus,
            Allowance.STANDARD_EVENTS: DeliveryMeter(org.clock),
            Allowance.PUSH_TOPICS: DeliveryMeter(org.clock),
            Allowance.GENERIC: DeliveryMeter(org.clock),
        }

    def most(self, allowance: Allowance) -> int:
        """Deliveries in 24 hours."""
        settings = self._org.settings
        return {
            Allowance.BUS: settings.daily_event_deliveries,
            Allowance.STANDARD_EVENTS: settings.daily_standard_event_deliveries,
            Allowance.PUSH_TOPICS: settings.daily_push_topic_deliveries,
            Allowance.GENERIC: settings.daily_generic_deliveries,
        }[allowance]

    def left(self, allowance: Allowance) -> int:
        """Return what of them is left now."""
        return self.most(allowance) - self._meters[allowance].in_last_24_hours()

    def platform_events_between(self, start: int, end: int) -> int:
        """Platform events of all kinds delivered by any API, from one full hour to another (epoch ms)."""
        meters = (self._meters[each] for each in (Allowance.BUS, Allowance.STANDARD_EVENTS))
        return sum(each.delivered_between(start, end, platform_events=True) for each in meters)

    def delivered(self, allowance: Allowance, numbers: Sequence[int], platform_events: int) -> None:
        """Count one answer's events."""
        self._meters[allowance].delivered(numbers, platform_events)
