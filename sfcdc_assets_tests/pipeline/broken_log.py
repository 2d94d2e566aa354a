"""A table that nobody can open any more."""

from __future__ import annotations

from pathlib import Path


def break_log(warehouse: Path, table: str) -> None:
    """Nothing of its log can be read."""
    for path in (warehouse / table / "_delta_log").iterdir():
        if path.is_file():
            path.write_bytes(b"{")
