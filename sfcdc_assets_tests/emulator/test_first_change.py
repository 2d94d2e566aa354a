"""A new org's stream has had an event, as any real org's has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.org.org import EmulatedOrg


@pytest.mark.parametrize("records", [0, 3])
def test_a_new_org_changes_one_record_and_one_that_was_started_again_none(tmp_path: Path, records: int) -> None:
    for _ in range(2):
        org = EmulatedOrg(tmp_path, seed=3)
        if not list(org.transactions()):
            org.populate(records)
        bus = EventBus(org)
        make_first_change(org, bus)
        assert (len(list(org.transactions())), bus.last_number) == (1, 1)
        org.close()
