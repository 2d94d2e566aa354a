"""One rebuild of a table at a time, on a disk and in an object store; a claim ends with the process that had it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.lake.delta import rebuild_claim
from sfcdc_assets.lake.delta.rebuild_claim import EXPIRES_MS, NAME, RebuildAtWork, RebuildOvertaken, claimed
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets_tests.lake.object_store import BUCKET, ObjectStore, object_store
from sfcdc_assets_tests.store_login import forget_logins

ACCOUNT, CONTACT = "current_state/Account", "current_state/Contact"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as served:
        yield served


@pytest.fixture(params=["disk", "store"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    if request.param == "disk":
        return Warehouse(str(tmp_path))
    return in_store(request, tmp_path, monkeypatch)


@pytest.fixture
def in_a_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    return in_store(request, tmp_path, monkeypatch)


def in_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    forget_logins(monkeypatch)
    for name, value in request.getfixturevalue("store").environment.items():
        monkeypatch.setenv(name, value)
    return Warehouse(f"s3://{BUCKET}/{tmp_path.name}")


class Hand(Clock):
    """Time that a test moves by hand."""

    def __init__(self) -> None:
        self.ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def hand() -> Iterator[Hand]:
    moved = Hand()
    with clock.using(moved):
        yield moved


def test_a_second_rebuild_of_a_table_is_refused_until_the_first_has_ended(warehouse: Warehouse) -> None:
    with claimed(warehouse, ACCOUNT) as check:
        with pytest.raises(RebuildAtWork, match="another rebuild of it is at work"), claimed(warehouse, ACCOUNT):
            raise AssertionError
        with claimed(warehouse, CONTACT):
            check()
    with claimed(warehouse, ACCOUNT):
        pass


def test_a_rebuild_that_fails_gives_its_claim_back(warehouse: Warehouse) -> None:
    with pytest.raises(ZeroDivisionError), claimed(warehouse, ACCOUNT):
        raise ZeroDivisionError
    with claimed(warehouse, ACCOUNT):
        pass


def test_on_a_disk_the_claim_of_a_killed_process_ends_with_it(tmp_path: Path) -> None:
    holder = f"""
from sfcdc_assets.lake.delta.rebuild_claim import claimed
from sfcdc_assets.lake.warehouse import Warehouse
with claimed(Warehouse({str(tmp_path)!r}), {ACCOUNT!r}):
    print("held", flush=True)
    input()
"""
    warehouse = Warehouse(str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RebuildAtWork), claimed(warehouse, ACCOUNT):
            raise AssertionError
        process.kill()
    with claimed(warehouse, ACCOUNT):
        pass


def test_in_a_store_a_claim_lasts_as_long_as_its_process_gives_signs_of_life(in_a_store: Warehouse, hand: Hand) -> None:
    with claimed(in_a_store, ACCOUNT) as sign_of_life:
        for _ in range(5):
            hand.ms += EXPIRES_MS - 1
            with pytest.raises(RebuildAtWork, match="after 10 minutes"), claimed(in_a_store, ACCOUNT):
                raise AssertionError
            sign_of_life()


def test_in_a_store_one_that_stood_still_too_long_has_lost_its_claim_and_takes_it_from_nobody(
    in_a_store: Warehouse, hand: Hand
) -> None:
    with claimed(in_a_store, ACCOUNT) as check:
        hand.ms += EXPIRES_MS + 1
        with claimed(in_a_store, ACCOUNT) as check_of_the_other:
            with pytest.raises(RebuildOvertaken, match="has begun while this one stood still"):
                check()
            check_of_the_other()


def test_of_two_that_see_a_free_table_in_a_store_one_has_it(
    in_a_store: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table.open_or_create(in_a_store, NAME, rebuild_claim.REBUILDS)
    append, raced = Table.append, []

    def after_another(table: Table, *arguments: object, **options: object) -> None:
        if not raced:
            raced.append(True)
            raced.append(rebuild_claim._Lease(in_a_store, ACCOUNT))
        append(table, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "append", after_another)
    with pytest.raises(RebuildAtWork), claimed(in_a_store, ACCOUNT):
        raise AssertionError
