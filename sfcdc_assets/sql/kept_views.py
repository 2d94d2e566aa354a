"""The DuckDB files that are kept at the newest cut: after each sync, by a step of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sfcdc_assets.lake.tables.consistent_cuts import newest_cuts
from sfcdc_assets.lake.tables.open_cut import OpenCut
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.sql.errors import DuckDbNotInstalled
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts

PACKAGES = {"duckdb": "duckdb", "fsspec": "fsspec"}
"""Module -> package of the extra `sql` in pyproject.toml."""


@dataclass(frozen=True)
class KeptViews:
    """A file that was brought to the newest cut."""

    file: Path
    views: int
    entities: int


def require_duckdb(wanted: str) -> None:
    """Raise `DuckDbNotInstalled` where the extra is missing. Comes before any import of what imports these packages."""
    if any(importlib.util.find_spec(module) is None for module in PACKAGES):
        raise DuckDbNotInstalled(wanted)


def are_kept(settings: Settings) -> bool:
    """Return whether there is a file to keep."""
    return settings.views_file is not None or settings.live_views_file is not None


def stand(warehouse: Warehouse) -> str | None:
    """Return what differs whenever there are other cuts to show; None where there is none yet."""
    return " ".join(f"{cut.channel}@{cut.position}/{cut.applied_at}" for cut in newest_cuts(warehouse)) or None


def keep_views(settings: Settings) -> Iterator[KeptViews]:
    """Bring the files of the settings to the newest cut; none where there is no cut yet. Raises `FileNotWritten`,
    `DuckDbNotInstalled`."""
    warehouse = Warehouse(settings.warehouse)
    cuts = [OpenCut(warehouse, cut) for cut in newest_cuts(warehouse)] if are_kept(settings) else []
    if not cuts:
        return
    require_duckdb("SFCDC_VIEWS_FILE")
    from sfcdc_assets.sql.views_file import write_live_views, write_views  # noqa: PLC0415 - only with the extra

    tables = TablesOfCuts(warehouse, cuts)
    if settings.views_file is not None:
        yield KeptViews(settings.views_file, write_views(tables, settings.views_file), len(tables.entities))
    if settings.live_views_file is not None:
        now = clock.now()
        written = write_live_views(tables, settings.live_views_file, now)
        yield KeptViews(settings.live_views_file, written, len(tables.entities))
