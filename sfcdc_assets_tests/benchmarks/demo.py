"""The demo: from nothing to tables that are proven equal to the org, by the clock."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence

from sfcdc_assets_tests.benchmarks.org_process import clean_environment, sfcdc
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage
from sfcdc_assets_tests.documentation import ROOT

SMALL = ("--records", "100", "--events", "400", "--rounds", "2")


def measure(quick: bool) -> Sequence[Figure]:
    """Seconds of `sfcdc demo` with its defaults; set-up of `make demo` is pip's and not counted."""
    with tempfile.TemporaryDirectory() as name:
        begun = time.perf_counter()
        sfcdc("demo", "--dir", name, *(SMALL if quick else ()), env=clean_environment(), cwd=ROOT)
        seconds = time.perf_counter() - begun
    case = "few records, no goal" if quick else "6,500 records of each object, 21,000 events"
    return [Figure(case, "s", [seconds], goal=None if quick else Goal(120))]


STAGE = Stage(
    title="`make demo`, set up",
    measure=measure,
    compared="The demo itself compares every table with the org, field by field, and fails if one differs.",
    limit="Waiting: for REST to show what the stream has brought, and for the end of each round's last transaction.",
)
