"""The warehouse: it can be written, there is room, and of two commits at once one is refused."""

from __future__ import annotations

import shutil
from uuid import uuid4

from sfcdc_assets.doctor.finding import Finding, failed, of_error, ok, warning
from sfcdc_assets.lake.delta import commit_probe
from sfcdc_assets.lake.delta.commit_probe import commits_accepted, nearest_folder, probe_of
from sfcdc_assets.lake.errors import CommitsNotAtomic
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

WRITABLE, SPACE, COMMITS = "warehouse", "disk space", "atomic commits"
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
