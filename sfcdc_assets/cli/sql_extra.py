"""The extra `sql`: DuckDB, which only questions to the tables need."""

from __future__ import annotations

import importlib.util

from sfcdc_assets.sql.errors import DuckDbNotInstalled

PACKAGES = {"duckdb": "duckdb", "fsspec": "fsspec"}
"""Module -> package of the extra in pyproject.toml."""


def require_duckdb(wanted: str) -> None:
    """Raise `DuckDbNotInstalled` where the extra is missing. Comes before any import of what imports these packages."""
    if any(importlib.util.find_spec(module) is None for module in PACKAGES):
        raise DuckDbNotInstalled(wanted)
