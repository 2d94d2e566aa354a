"""A run that follows its channels reads suspect records back when a read shows their last event, and nothing waits for
that: no other record, and no other entity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.apply.follow_run import FOLLOW_SECONDS, QUIET_SECONDS, Following
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.org_reads import read_back
from sfcdc_assets.org_reads.read_back import PATIENCE_MS
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.reconciliation.rebuild import applying, rebuild_entity
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream
from sfcdc_assets_tests.run_contexts import run_on

VISIBILITY = 5.0
ENTITIES = {"Account": CHANNEL}


class Followed:
    """An org whose stream a sensor lands, and the runs that apply what has landed."""

    def __init__(self, org: Stream) -> None:
        self.org = org
        self._reader = org.reader()
        self._run = run_on(org.warehouse, org.connected, visibility_seconds=VISIBILITY, describe_seconds=10**9)

    def day_zero(self) -> None:
        self.org.tick(self._reader)
        take_snapshot(self._run, ToCopy("Account", CHANNEL), lambda least: max(least, self.org.checkpoint().position))
        self.org.pass_time(60)

    def make_suspect(self, account: int) -> None:
        """A change of which the event says nothing but that it happened."""
        self.org.server.faults.arm(Fault.INTERNAL_ERROR)
        self.org.update(account)

    def catch_up(self) -> float:
        """A tick and a run; how long the run waited, in seconds."""
        self.org.tick(self._reader)
        before = self.org.clock()
        self._catch_up().run()
        return (self.org.clock() - before) / 1000

    def _catch_up(self) -> CatchUp:
        landed = LandedOnly(self.org.warehouse, {CHANNEL: self.org.clock()})
        return CatchUp(self._run, landed, ENTITIES, ENTITIES, ApplyListener(), every_entity=False, waits=False)

    def follow(self) -> float:
        """A tick, and a run that goes on until nothing has come for a while; how long it went on, in seconds."""
        self.org.tick(self._reader)
        begun, catch_up = self.org.clock(), self._catch_up()
        landed = LandedOnly(self.org.warehouse, {CHANNEL: begun})
        following = Following(self._run, landed, ENTITIES, ENTITIES, FOLLOW_SECONDS, lambda: False)
        catch_up.run()
        assert not any(catch_up.follow(following))
        return (self.org.clock() - begun) / 1000

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["Id"]: row for row in rows_of(self.org.warehouse, "current_state/Account")}

    def suspects(self) -> set[str]:
        return {each for each, row in self.rows().items() if row["_in_doubt"]}

    def assert_equal_and_rebuilt(self) -> None:
        """The table is the org, once the last transaction is complete, and so are the tables that are built again."""
        self.org.pass_time(60)
        self.catch_up()
        assert_same_rows("Account", self.rows(), expected_rows(self.org.org, "Account"))
        before = self._layers()
        rebuild_entity(self.org.warehouse, "Account", CHANNEL, applying(self._run, "Account", CHANNEL))
        assert self._layers() == before

    def _layers(self) -> list[list[str]]:
        state = rows_of(self.org.warehouse, "current_state/Account")
        both = state, versions_of(self.org.warehouse, "Account")
        return [sorted(str(row | {"_batch": None, "_first_batch": None}) for row in rows) for rows in both]


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    """Day 0 is over, and its events are old."""
    without_spark(monkeypatch, Random(1))
    with stream(tmp_path, records=5) as org:
        made = Followed(org)
        made.day_zero()
        yield made


def test_what_is_to_be_read_holds_up_no_other_record(followed: Followed) -> None:
    suspect, other = followed.org.ids(0, 1)
    followed.make_suspect(0)
    followed.org.update(1, Name="at once")
    followed.org.update(2)  # what comes after it shows that it is complete
    assert followed.catch_up() == 0
    assert (followed.rows()[other]["Name"], followed.suspects()) == ("at once", {suspect})
    followed.org.pass_time(VISIBILITY)
    assert followed.catch_up() == 0
    assert followed.suspects() == set()
    followed.assert_equal_and_rebuilt()


def test_a_record_is_read_though_others_change_all_the_time(followed: Followed) -> None:
    followed.make_suspect(0)
    for second in range(int(4 * VISIBILITY)):
        followed.org.pass_time(1)
        followed.org.update(1 + second % 4)
        assert followed.catch_up() == 0
        if second and not followed.suspects():
            break
    assert VISIBILITY <= second + 1 <= VISIBILITY + 2
    followed.assert_equal_and_rebuilt()


def test_a_run_reads_what_is_left_though_nothing_comes(followed: Followed) -> None:
    followed.make_suspect(0)
    followed.org.update(1)
    lasted = followed.follow()
    assert followed.suspects() == set()
    assert VISIBILITY + QUIET_SECONDS <= lasted <= VISIBILITY + QUIET_SECONDS + 1
    followed.assert_equal_and_rebuilt()


def test_events_that_cannot_be_read_keep_no_other_record_waiting(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise TableDamaged("raw_events", "Account", "a.parquet", "cannot be read")

    followed.make_suspect(0)
    followed.org.update(1, Name="at once")
    followed.org.update(2)
    with monkeypatch.context() as patch:
        patch.setattr(read_back, "events_of_records", damaged)
        followed.catch_up()
    assert followed.rows()[followed.org.accounts[1]]["Name"] == "at once"
    (entry,) = rows_of(followed.org.warehouse, "gap_reconciliation/Account")
    assert (entry["status"], entry["attempts"]) == ("open", 1)
    assert "raw_events (Account) is damaged" in entry["last_error"]
    followed.org.pass_time(3600)
    followed.catch_up()
    followed.assert_equal_and_rebuilt()


def test_a_record_that_changes_all_the_time_is_waited_for_after_a_minute(followed: Followed) -> None:
    waited = []
    begun = followed.org.clock()
    while not waited or followed.suspects():
        followed.make_suspect(0)
        followed.org.update(1)
        waited.append(followed.catch_up())
        followed.org.pass_time(4)
        assert followed.org.clock() - begun < 2 * PATIENCE_MS
    assert followed.org.clock() - begun > PATIENCE_MS
    assert (sum(waited[:-1]), waited[-1] >= VISIBILITY) == (0, True)
    followed.assert_equal_and_rebuilt()
