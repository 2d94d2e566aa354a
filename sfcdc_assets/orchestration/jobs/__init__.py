"""The jobs that sensors, schedules and the command line launch; a person may too.

What a person usually launches are the assets themselves: any entity, or a range of them.
"""

from collections.abc import Callable, Mapping

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from sfcdc_assets.orchestration.jobs.audit import AUDIT, build_audit
from sfcdc_assets.orchestration.jobs.checks import CHECKS, build_check
from sfcdc_assets.orchestration.jobs.event_log import Ours
from sfcdc_assets.orchestration.jobs.forget_runs import NAME as FORGET_RUNS
from sfcdc_assets.orchestration.jobs.forget_runs import build_forget_runs
from sfcdc_assets.orchestration.jobs.formulas import NAME as READ_FORMULAS
from sfcdc_assets.orchestration.jobs.formulas import build_read_formulas
from sfcdc_assets.orchestration.jobs.maintenance import (
    DROP_PAYLOADS,
    MAINTAIN,
    THIN_OUT,
    build_drop_payloads,
    build_maintain,
    build_thin_out,
)
from sfcdc_assets.orchestration.jobs.packing import NAME as PACK
from sfcdc_assets.orchestration.jobs.packing import build_pack
from sfcdc_assets.orchestration.jobs.run_config import SNAPSHOT, SYNC
from sfcdc_assets.orchestration.jobs.snapshot import build_snapshot_job
from sfcdc_assets.orchestration.jobs.sync import build_sync
from sfcdc_assets.orchestration.jobs.topics import CHECK_TOPICS, build_check_topics
from sfcdc_assets.orchestration.org_assets import OrgAssets

_BUILT: Mapping[str, Callable[[OrgAssets], dg.JobDefinition]] = {
    SYNC: build_sync,
    SNAPSHOT: build_snapshot_job,
    AUDIT: build_audit,
    CHECKS: build_check,
    CHECK_TOPICS: build_check_topics,
    DROP_PAYLOADS: build_drop_payloads,
    MAINTAIN: build_maintain,
    THIN_OUT: build_thin_out,
    PACK: build_pack,
    READ_FORMULAS: build_read_formulas,
}
LAYERS = "layers"
JOBS = (*_BUILT, FORGET_RUNS, LAYERS)
"""The short names of all jobs; each begins with the org's prefix in Dagster (`OrgAssets.name`)."""


def build_jobs(assets: OrgAssets) -> Mapping[str, dg.JobDefinition]:
    """Build all jobs of an org, by their short names."""
    jobs = {name: build(assets) for name, build in _BUILT.items()}
    return {**jobs, FORGET_RUNS: build_forget_runs(assets, JOBS)}


def build_layers_job(assets: OrgAssets) -> UnresolvedAssetJobDefinition:
    """Build the job of the layers, for people. Sensors of channels have it among their jobs because Dagster lists a
    sensor on the page of an asset if one of its jobs has the asset; what they ask for is `sync` and `snapshot`."""
    keys = assets.keys
    return dg.define_asset_job(
        assets.name(LAYERS),
        selection=dg.AssetSelection.assets(keys.raw_events, keys.snapshot, *keys.of_tables),
        description="Land, read whole and apply chosen entities, by hand. Sensors ask for `sync` and `snapshot`.",
        tags=assets.tags,
        executor_def=assets.executor,
    )


def ours(assets: OrgAssets) -> Ours:
    """Return what of a Dagster instance belongs to an org's definitions."""
    return Ours(assets.prefix, frozenset(map(assets.name, JOBS)))


__all__ = [
    "AUDIT",
    "CHECKS",
    "CHECK_TOPICS",
    "DROP_PAYLOADS",
    "FORGET_RUNS",
    "JOBS",
    "LAYERS",
    "MAINTAIN",
    "PACK",
    "READ_FORMULAS",
    "SNAPSHOT",
    "SYNC",
    "THIN_OUT",
    "build_jobs",
    "build_layers_job",
    "ours",
]
