"""Random histories of an org, replayed: history, cuts and rebuilt layers against what the org did (guarantees 5, 10).

`pytest sfcdc_assets_tests/pipeline/simulation/test_simulated_histories.py --histories 2000` for more of them, from
`--first-history 500` on, `--history-seed 17` for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets_tests.lake.object_store import BUCKET, object_store
from sfcdc_assets_tests.model.relation import Followed
from sfcdc_assets_tests.model.table_trace import recorded
from sfcdc_assets_tests.pipeline.memory_folder import memory_folder
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import (
    with_roots_read_once,
    with_schemas_read_once,
    with_small_pieces,
    without_spark,
)
from sfcdc_assets_tests.pipeline.simulation.checks import Checks, assert_rebuilding_gives_the_same_rows, layers_of
from sfcdc_assets_tests.pipeline.simulation.history_plan import full_plan_of
from sfcdc_assets_tests.pipeline.simulation.simulated_history import opened
from sfcdc_assets_tests.store_login import log_in

OF = {"history_seed": 1, "seed_with_spark": 100, "seed_in_a_store": 100}
"""Test's argument -> of so many histories it is given one: with jobs of Spark, and in an object store, one takes ten
times as long."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each history."""
    one, first, count = map(metafunc.config.getoption, ("--history-seed", "--first-history", "--histories"))
    for name in OF.keys() & set(metafunc.fixturenames):
        seeds = range(first, first + count, OF[name]) if one is None else [one]
        metafunc.parametrize(name, seeds)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers' certificates are kept."""
    return tmp_path_factory.mktemp("authority")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be: a history makes a thousand small files."""
    with memory_folder(tmp_path) as made:
        yield made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs much, and has nothing to do with what is shown, is done once."""
    with_roots_read_once(monkeypatch)
    with_schemas_read_once(monkeypatch)


@pytest.fixture
def followed(history_seed: int, pytestconfig: pytest.Config) -> Iterator[None]:
    """Of some histories every commit has to be a step that the model allows."""
    every, commits = pytestconfig.getoption("--follow-every"), Followed()
    with recorded(commits) if history_seed % every == 1 % every else nullcontext():
        yield
    print(f"followed: {dict(commits.counts)}")


def test_a_simulated_history(
    history_seed: int, folder: Path, authority: Path, quick: None, followed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment history is what the org was, each cut is the org between two transactions, and what is rebuilt
    from `raw_events` and `snapshot` is the same."""
    assert_history(history_seed, folder / "warehouse", authority, monkeypatch)


@pytest.mark.parametrize("seed", [1119])
def test_a_simulated_history_with_a_polled_object_and_platform_events(
    seed: int, folder: Path, authority: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full_plan_of(seed).has_others
    assert_history(seed, folder / "warehouse", authority, monkeypatch)


@pytest.mark.slow
def test_a_simulated_history_in_an_object_store(
    seed_in_a_store: int, authority: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_store() as store:
        log_in(store.environment, monkeypatch)
        assert_history(seed_in_a_store, f"s3://{BUCKET}/warehouse", authority, monkeypatch)


def assert_history(seed: int, root: Path | str, authority: Path, patch: pytest.MonkeyPatch) -> None:
    """Live it, and raise AssertionError where the tables are not what the org was."""
    print(f"seed {seed}; again: .venv/bin/python -m pytest {Path(__file__)} --history-seed {seed}")
    without_spark(patch, Random(seed))
    if seed % 2:
        with_small_pieces(patch)
    with opened(full_plan_of(seed), root, authority) as simulated:
        simulated.live()
        Checks(simulated).all()
        simulated.assert_the_others_are_equal()
        assert_rebuilding_gives_the_same_rows(simulated)
        simulated.consumers.come()
        print(f"what was reported to consumers: {dict(simulated.consumers.calls)}")


def test_a_simulated_history_is_the_same_with_spark(
    seed_with_spark: int, folder: Path, authority: Path, spark: SparkSession, quick: None
) -> None:
    print(f"seed {seed_with_spark}")
    plan = full_plan_of(seed_with_spark)
    with opened(plan, folder / "spark", authority, spark) as simulated:
        simulated.live()
        Checks(simulated).all()
        with_spark = layers_of(simulated)
    with pytest.MonkeyPatch.context() as patch, opened(plan, folder / "in process", authority) as simulated:
        without_spark(patch, Random(seed_with_spark))
        simulated.live()
        assert layers_of(simulated) == with_spark
