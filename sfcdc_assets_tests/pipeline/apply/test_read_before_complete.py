"""A record is read back while the newest events have landed and their transactions may not be complete yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfcdc_assets.apply.apply_changes import ApplyReport, apply_entity
from sfcdc_assets.apply.attempt import ToApply
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.org_reads.read_back import read_back_suspects
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.reconciliation.rebuild import applying, rebuild_entity
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream
from sfcdc_assets_tests.run_contexts import run_on


def versions(org: Stream) -> list[dict[str, Any]]:
    """Those of the record, without the batch that wrote them."""
    of_record = [
        row | {"_batch": None} for row in versions_of(org.warehouse, "Account") if row["Id"] == org.accounts[0]
    ]
    return sorted(of_record, key=lambda row: (row["_position"], str(row["_superseded_at"])))


def test_a_wildcard_among_them_leaves_nothing_certain_until_the_read_whenever_it_is_applied(tmp_path: Path) -> None:
    with stream(tmp_path, records=3) as org:
        reader, faults = org.reader(), org.server.faults
        run = run_on(org.warehouse, org.connected, visibility_seconds=0.0, describe_seconds=10**9)

        def land() -> None:
            org.tick(reader)

        def apply() -> ApplyReport:
            return apply_entity(run, ToApply("Account", CHANNEL))

        def land_and_apply() -> None:
            org.pass_time(15)
            land()
            apply()

        land()
        take_snapshot(run, ToCopy("Account", CHANNEL), lambda least: max(least, org.checkpoint().position))
        org.pass_time(60)
        faults.arm(Fault.INTERNAL_ERROR)
        org.update(0, Phone="1")
        org.update(0, Phone="2", Industry="Energy")
        land_and_apply()
        with org.org.transaction() as work:
            work.clear_field("Account", "Industry")
            work.update("Account", org.accounts[0], {"Rating": "Hot"})
        land()
        wildcard = next(row for row in org.landed() if row["record_ids"] == ["001*"])
        landed = LandedOnly(org.warehouse, {CHANNEL: org.clock()})
        assert RawEvents.open(org.warehouse).complete_position(CHANNEL) < wildcard["position"]
        assert read_back_suspects(run, "Account", CHANNEL, Watermarks(run, landed)) is not None
        apply()
        land_and_apply()
        found = versions(org)
        meanwhile = [row for row in found if row["_position"] == wildcard["position"]]
        assert [(row["_change_type"], row["_certain_fields"]) for row in meanwhile] == [
            ("UNKNOWN", []),
            ("REFETCH", None),
        ]
        rebuild_entity(org.warehouse, "Account", CHANNEL, applying(run, "Account", CHANNEL))
        assert versions(org) == found
