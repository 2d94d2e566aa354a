"""The jobs that sensors, schedules and the command line launch; a person may too.

What a person usually launches are the assets themselves: any entity, or a range of them.
"""

from sfcdc_assets.orchestration.jobs.audit import AUDIT
from sfcdc_assets.orchestration.jobs.checks import CHECK
from sfcdc_assets.orchestration.jobs.forget_runs import FORGET_RUNS
from sfcdc_assets.orchestration.jobs.formulas import READ_FORMULAS
from sfcdc_assets.orchestration.jobs.maintenance import DROP_PAYLOADS, MAINTAIN, THIN_OUT
from sfcdc_assets.orchestration.jobs.packing import PACK
from sfcdc_assets.orchestration.jobs.snapshot import LONG, SNAPSHOT
from sfcdc_assets.orchestration.jobs.sync import SYNC
from sfcdc_assets.orchestration.jobs.topics import CHECK_TOPICS

__all__ = [
    "AUDIT",
    "CHECK",
    "CHECK_TOPICS",
    "DROP_PAYLOADS",
    "FORGET_RUNS",
    "LONG",
    "MAINTAIN",
    "PACK",
    "READ_FORMULAS",
    "SNAPSHOT",
    "SYNC",
    "THIN_OUT",
]
