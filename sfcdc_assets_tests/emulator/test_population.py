"""The records of an org from before its first event."""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.simulated_clock import SimulatedClock


def test_no_record_has_a_stamp_of_a_time_to_come(tmp_path: Path) -> None:
    """A poll would read such a record again each time."""
    org = EmulatedOrg(tmp_path, seed=5, clock=SimulatedClock(), objects=whole_org())
    stamped = {name: each.stamp for name, each in org.definitions.items() if each.stamp and each.companion is None}
    org.populate(dict.fromkeys(stamped, 30))
    late = {
        name: str(record["Id"])
        for name, stamp in stamped.items()
        for record in org.store.records(org.definitions[name], include_deleted=True)
        if int(str(record[stamp])) > org.clock()
    }
    assert "LoginHistory" in stamped
    assert late == {}
