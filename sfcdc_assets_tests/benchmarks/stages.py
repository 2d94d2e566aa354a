"""The stages, in the order of the data; each name is a module of this package with a `STAGE`."""

from __future__ import annotations

import importlib

from sfcdc_assets_tests.benchmarks.stage import Stage

STAGES: tuple[str, ...] = (
    "decode",
    "poll_and_land",
    "emulator",
    "snapshot",
    "large_copy",
    "catch_up",
    "apply_recent",
    "apply_anywhere",
    "wide",
    "history",
    "changes",
    "text",
    "many_entities",
    "object_store",
    "many_objects",
    "polled_objects",
    "large_polled",
    "beside_large",
    "cluster",
    "old_warehouse",
    "idle_tick",
    "fresh",
    "first_tables",
    "footprint",
    "sync",
    "demo",
    "start",
)

WITH_PROCESSES = ("large_copy", "catch_up", "object_store", "cluster", "fresh", "first_tables", "footprint", "sync")
"""Those that start whole commands, a store or a cluster, for minutes at any size. `--quick` runs them when they are
named; that their results are right, other tests show all the time."""

QUICK = tuple(name for name in STAGES if name not in WITH_PROCESSES)
"""What `--quick` runs, and so CI: the demo is among them, because a newcomer waits for it."""


def stage_named(name: str) -> Stage:
    """The stage of the module `name`."""
    stage = importlib.import_module(f"sfcdc_assets_tests.benchmarks.{name}").STAGE
    assert isinstance(stage, Stage), name
    return stage
