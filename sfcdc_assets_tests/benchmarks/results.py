"""What a run of a stage found, and how it is written down."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    """The text of some results; samples to four digits."""
    return json.dumps(as_values(results), indent=1) + "\n"


def as_values(results: Mapping[str, Result]) -> dict[str, Any]:
    """What is written of results, as JSON's values."""
    return {name: _rounded(asdict(result)) for name, result in results.items()}


def from_json(text: str) -> dict[str, Result]:
    """What `as_json` wrote."""
    return from_values(json.loads(text))


def from_values(values: Mapping[str, Any]) -> dict[str, Result]:
    """What `as_values` gave."""
    return {name: _result(value) for name, value in values.items()}


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
