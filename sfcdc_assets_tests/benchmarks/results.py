"""What a run of a stage found, as docs/benchmarks.json keeps it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sfcdc_assets_tests.benchmarks.stage import Figure, Goal

PACKAGES = ("pyspark", "deltalake", "pyarrow", "polars", "fastavro", "dagster")


@dataclass(frozen=True)
class Result:
    """One stage's figures, with its sentences, when (`date`, UTC) and on what (`machine`) they were measured."""

    title: str
    compared: str
    limit: str
    seconds: float
    date: str
    machine: str
    figures: Sequence[Figure]


def machine() -> str:
    """Cores, memory, Python and the packages that matter, in one line."""
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return f"{os.cpu_count()} cores, {gibibytes:.0f} GiB, Python {platform.python_version()}, {packages}"


def as_json(results: Mapping[str, Result]) -> str:
    """The text of docs/benchmarks.json; samples to four digits."""
    return json.dumps(_rounded({name: asdict(result) for name, result in results.items()}), indent=1) + "\n"


def read(path: Path) -> dict[str, Result]:
    """The results kept at `path`; none where there is no file yet."""
    return from_json(path.read_text(encoding="utf-8")) if path.exists() else {}


def from_json(text: str) -> dict[str, Result]:
    """What `as_json` wrote."""
    return {name: _result(value) for name, value in json.loads(text).items()}


def _result(value: Mapping[str, Any]) -> Result:
    figures = [
        Figure(**{**figure, "goal": Goal(**figure["goal"]) if figure["goal"] else None}) for figure in value["figures"]
    ]
    return Result(**{**value, "figures": figures})


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.4g}")
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [_rounded(item) for item in value]
    return value
