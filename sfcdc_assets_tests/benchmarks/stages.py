"""The stages, in the order of the data; each name is a module of this package with a `STAGE`."""

from __future__ import annotations

import importlib

from sfcdc_assets_tests.benchmarks.stage import Stage

STAGES: tuple[str, ...] = ("snapshot", "many_entities", "idle_tick", "old_warehouse", "start")


def stage_named(name: str) -> Stage:
    """The stage of the module `name`."""
    stage = importlib.import_module(f"sfcdc_assets_tests.benchmarks.{name}").STAGE
    assert isinstance(stage, Stage), name
    return stage
