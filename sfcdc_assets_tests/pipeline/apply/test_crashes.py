"""Random crashes between any two commits of day zero, a batch, a snapshot, a schema change and a read-back: after the
next run the tables are the org, and each record's versions follow one another.

`pytest sfcdc_assets_tests/pipeline/apply/test_crashes.py --crashes 200` for more of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.commits import Died, before_commit, die
from sfcdc_assets_tests.pipeline.memory_folder import memory_folder
from sfcdc_assets_tests.pipeline.oracle import expected_rows
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import (
    with_roots_read_once,
    with_schemas_read_once,
    without_spark,
)
from sfcdc_assets_tests.pipeline.simulation.checks import Checks, assert_rebuilding_gives_the_same_rows, values
from sfcdc_assets_tests.pipeline.simulation.history_plan import BatchPlan, plan_of
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.simulation.simulated_history import SimulatedHistory, opened
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

pytestmark = pytest.mark.slow

CRASHES_OF_AN_ORG = 12
COMMITS = 70
"""How many day zero has, at least."""
TRIES = 40
"""Works until so many processes have died: some end before the commit that was to be the last."""
SHAPES = ({"type": "string", "length": 40}, {"type": "double", "precision": 18, "scale": 4}, {"type": "boolean"})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each org."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(-(-metafunc.config.getoption("--crashes") // CRASHES_OF_AN_ORG)))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with memory_folder(tmp_path) as made:
        yield made


class Crashes:
    """What happens in the org before a run, and runs that die."""

    def __init__(self, simulated: SimulatedHistory, seed: int) -> None:
        self._simulated = simulated
        self._org = simulated.org
        self._dice = Random(f"crashes:{seed}")
        self._fields = 0
        self._commits: Counter[str] = Counter()
        self.died: list[str] = []

    def all(self) -> None:
        self._run("day zero", COMMITS)
        works: tuple[Callable[[], None], ...] = (
            self.a_batch,
            self.a_snapshot,
            self.a_schema_change,
            self.a_read_back,
        )
        for number in range(TRIES):
            work = works[number % len(works)]
            work()
            name = work.__name__
            self._run(name, self._commits[name] or COMMITS // 2)
            if len(self.died) >= CRASHES_OF_AN_ORG:
                return
        raise AssertionError(f"only {len(self.died)} processes have died: {self.died}")

    def _run(self, name: str, commits: int) -> None:
        """A process that dies before some commit, and another one that takes up what it left."""
        with suppress(Died), self._simulated.process(), before_commit(self._dice.randint(1, commits), die) as commit:
            self._simulated.sync()
        if commit.happened_at is None:
            self._commits[name] = commit.begun
        else:
            self.died.append(f"{name} at {commit.happened_at}")
            assert_versions_follow(version for entity in self._entities for version in self._versions(entity))
            with self._simulated.process():
                self._simulated.sync()
        self._check(f"after {self.died[-1:]}")

    def _check(self, when: str) -> None:
        for entity in self._entities:
            found = {row["Id"]: row for row in rows_of(self._simulated.warehouse, f"current_state/{entity}")}
            for record_id, wanted in expected_rows(self._org, entity).items():
                row = found.pop(record_id)
                wrong = {name: (row[name], value) for name, value in wanted.items() if row[name] != value}
                assert not wrong, f"{entity} {record_id} {when}: (table, org) of {wrong}"
            assert all(row["_is_deleted"] for row in found.values()), when
            versions = self._versions(entity)
            assert_versions_follow(versions)
            last = {row["Id"]: values(row) for row in versions if row["_valid_to"] is None}
            rows = rows_of(self._simulated.warehouse, f"current_state/{entity}")
            assert last == {row["Id"]: values(row) for row in rows if row["_change_type"]}, when
            suspects = rows_of(self._simulated.warehouse, f"gap_reconciliation/{entity}")
            assert not [suspect for suspect in suspects if suspect["status"] == "open"], when

    @property
    def _entities(self) -> list[str]:
        return self._org.selected_entities

    def _versions(self, entity: str) -> list[dict[str, object]]:
        return versions_of(self._simulated.warehouse, entity)

    def a_batch(self) -> None:
        for entity in self._entities:
            ids = [str(record["Id"]) for record in self._org.records(entity)]
            for record_id in self._dice.sample(ids, min(3, len(ids))):
                self._simulated.clock.advance(1_100)
                with self._org.transaction() as work:
                    work.update(entity, record_id, {"OwnerId": self._owner(entity, record_id)})
        self._simulated.step(4)

    def a_snapshot(self) -> None:
        """An overflow, which only a snapshot answers."""
        self._simulated.server.faults.arm(Fault.OVERFLOW)
        self.a_batch()

    def a_schema_change(self) -> None:
        """A new field with values that no event tells of, or another type of the last one, or its end."""
        entity, setup = self._entities[0], self._org.setup
        if not any(True for _ in self._org.records(entity)):
            return  # an object without changes is described once a day
        name = f"Crash_{self._fields // 3}__c"
        kind, self._fields = self._fields % 3, self._fields + 1
        if kind == 0:
            setup.add_field(entity, name, SHAPES[0], values=lambda _: "12")
        elif kind == 1:
            setup.change_type(entity, name, SHAPES[1])
        else:
            setup.drop_field(entity, name)
        self.a_batch()

    def a_read_back(self) -> None:
        self._simulated.server.faults.arm(Fault.INTERNAL_ERROR)
        self.a_batch()

    def _owner(self, entity: str, record_id: str) -> str:
        users = self._org.users
        (record,) = (each for each in self._org.records(entity) if each["Id"] == record_id)
        return users.integration if record.get("OwnerId") != users.integration else users.automated_process


def test_tables_are_the_org_after_every_crash(
    seed: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    with_roots_read_once(monkeypatch)
    with_schemas_read_once(monkeypatch)
    without_spark(monkeypatch, Random(seed))
    with opened(crash_plan_of(seed), folder, tmp_path) as simulated:
        crashes = Crashes(simulated, seed)
        crashes.all()
        print("\n".join(crashes.died))
        Checks(simulated).all()
        assert_rebuilding_gives_the_same_rows(simulated)


def crash_plan_of(seed: int) -> BatchPlan:
    """An org to which nothing happens by itself but traffic. It shows changes within the time that is set for it: of an
    overflow no event tells which rows of a snapshot that was taken too early are old."""
    plan = plan_of(seed)
    settings = replace(plan.settings, rest_delay=min(plan.settings.rest_delay, int(plan.visibility * 1000)))
    mix = replace(plan.mix, **dict.fromkeys(_CHANGES, 0.0))
    return replace(plan, holes=0.0, steps=(), settings=settings, mix=mix)


_CHANGES = ("add_field", "drop_field", "rename_field", "retype_field", "new_object", "hide_field", "show_field")
