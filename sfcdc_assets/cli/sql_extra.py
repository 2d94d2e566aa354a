"""What the commands about views share: the extra `sql` (DuckDB), and the option for labels."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from sfcdc_assets.sql.errors import DuckDbNotInstalled

PACKAGES = {"duckdb": "duckdb", "fsspec": "fsspec"}
"""Module -> package of the extra in pyproject.toml."""

Labels = Annotated[
    bool,
    typer.Option(
        "--labels",
        help="Put the labels of picklist values beside them (`stage_name_label`), and the names of record types "
        "(`record_type_name`).",
    ),
]


def require_duckdb(wanted: str) -> None:
    """Raise `DuckDbNotInstalled` where the extra is missing. Comes before any import of what imports these packages."""
    if any(importlib.util.find_spec(module) is None for module in PACKAGES):
        raise DuckDbNotInstalled(wanted)
