"""The warehouse: it can be written, there is room, of two commits at once one is refused, and no table of records has
Delta's change data feed."""

from __future__ import annotations

import shutil
from uuid import uuid4

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.lake.delta import commit_probe
from sfcdc_assets.lake.delta.commit_probe import commits_accepted, nearest_folder, probe_of
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_snapshot import CHANGE_FEED, CHANGE_FEED_REFUSED
from sfcdc_assets.lake.errors import CommitsNotAtomic, TableDamaged
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.concurrency import all_side_by_side
from sfcdc_assets.runtime.errors import SfcdcError, enumerated

WRITABLE, SPACE, COMMITS = "warehouse", "disk space", "atomic commits"
CHANGE_FEED_CHECK = "change data feed"
_NAMED = 5
LEAST_BYTES, FEW_BYTES = 256 * 1024**2, 2 * 1024**3


def space(free_bytes: int, place: str) -> Finding:
    """Return whether there is room to work in. A rebuild takes as much as an entity's tables do."""
    found = f"{free_bytes / 1024**3:.1f} GiB are free at {place}"
    fix = "Make room, or set SFCDC_WAREHOUSE to a larger disk."
    if free_bytes < LEAST_BYTES:
        return failed(SPACE, f"Only {found}.", fix)
    if free_bytes < FEW_BYTES:
        return warning(SPACE, f"Only {found}.", fix)
    return ok(SPACE, found)


def storage(warehouse: Warehouse) -> list[Finding]:
    """Return what a table shows that is made for this and removed again: beside the tables, or where they would be."""
    findings = []
    if warehouse.is_local:
        there = nearest_folder(warehouse.folder)
        findings.append(space(shutil.disk_usage(there).free, str(there)))
    try:
        if not warehouse.is_local:
            warehouse.check_writable()
        with probe_of(warehouse, f"doctor-{uuid4().hex}") as probe:
            findings.append(ok(WRITABLE, f"{warehouse.root} can be written"))
            findings.append(commits(probe))
    except (SfcdcError, OSError) as error:
        broken = error if isinstance(error, SfcdcError) else SfcdcError(str(error))
        findings.append(of_error(WRITABLE, broken))
    return findings


def commits(probe: Warehouse) -> Finding:
    """Writers that read the same version commit at the same moment: all but one are refused, or events would be
    lost."""
    accepted = commits_accepted(probe)
    if accepted == 1:
        return ok(COMMITS, f"of {commit_probe.WRITERS} commits at once, one was accepted")
    return of_error(COMMITS, CommitsNotAtomic(probe.root, accepted, commit_probe.WRITERS))


def change_feed(warehouse: Warehouse) -> Finding:
    """Return which tables of records have it. The next run switches it off, and goes on."""
    names = [
        f"{layer}/{entity}" for layer in (current_state.LAYER, history.LAYER) for entity in warehouse.entities(layer)
    ]
    has_feed = all_side_by_side(lambda name: _has_feed(warehouse, name), names, warehouse.looks_at_once)
    found = [name for name, has in zip(names, has_feed, strict=True) if has]
    if not found:
        return ok(CHANGE_FEED_CHECK, f"{CHANGE_FEED} is on no table; changes_since tells what has changed")
    return warning(
        CHANGE_FEED_CHECK,
        f"{CHANGE_FEED} is on {enumerated(found, _NAMED)}. {CHANGE_FEED_REFUSED}.",
        "Find out who sets it. The next run of the entity, or `sfcdc maintain`, switches it off and goes on.",
    )


def _has_feed(warehouse: Warehouse, name: str) -> bool:
    try:
        table = Table.open(warehouse, name)
    except TableDamaged:
        return False  # another check names it
    return table is not None and table.has_change_feed
