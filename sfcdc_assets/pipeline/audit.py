"""An audit of several entities within one budget of API requests."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.channel_reader import POLL, Poller
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.verify import VerifyReport, verify_entity


def audit(warehouse: Warehouse, org: Org, channels: Mapping[str, str], budget: int | None = None) -> list[VerifyReport]:
    """Verify each entity (entity -> channel). What one entity does not need of its share is left to those after it."""
    reports: list[VerifyReport] = []
    left = budget
    with Poller(warehouse, org, math.inf, POLL) as lander:
        for number, (entity, channel) in enumerate(channels.items()):
            share = None if left is None else max(0, left) // (len(channels) - number)
            reports.append(verify_entity(warehouse, org, lander, entity, channel, share))
            left = None if left is None else left - reports[-1].calls
    return reports
