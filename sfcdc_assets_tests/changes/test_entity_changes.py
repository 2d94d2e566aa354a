"""Changes of an entity over random batches: between any two of them, each record that differs is told once.

`python -m sfcdc_assets_tests.changes.test_entity_changes 0 500` for as many histories, in which two consumers come
after each batch that stopped anywhere before; the two of the test are asked with every token.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, cast

import duckdb
import numpy
import pytest
from deltalake import DeltaTable

from sfcdc_assets.changes import token as reasons
from sfcdc_assets.changes.entity_changes import EntityChanges
from sfcdc_assets.changes.token import ChangesExpired
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut
from sfcdc_assets_tests.changes.batches import CHANNEL, Batches
from sfcdc_assets_tests.pipeline.memory_folder import memory_folder
from sfcdc_assets_tests.pipeline.simulation.consumers import State, assert_reported_once, fold, in_order
from sfcdc_assets_tests.timeline.builders import change, everything, read

pytestmark = pytest.mark.slow

HISTORIES, BATCHES = 2, 8
IN_SQL, IN_SQL_OF_MANY = 0.2, 0.1
"""Share of the calls that are asked in SQL too, and of those of many histories."""
COME_BACK = 2
"""Consumers after each batch of many histories: the one that came last, and one that stopped before."""
IDS = "abcdef"
AT = datetime.now(UTC)
NOW = int(AT.timestamp() * 1000)


class History:
    """Random batches by a seed: events, gaps, records read back, snapshots that go back, and events that a snapshot
    lets be forgotten."""

    def __init__(self, seed: int, root: str) -> None:
        self.dice, self.tables = Random(seed), Batches(root)
        self.dice_of_sql = Random(f"sql:{seed}")
        self.events: list[dict[str, Any]] = []
        self.went_back = 0

    def batch(self) -> None:
        """One more."""
        at = len(self.events)
        if at > 4 and self.dice.random() < 0.3:
            self._copy_again()
            return
        count = self.dice.randint(1, 4)
        self.events += [self._event(at + number) for number in range(1, count + 1)]
        new = self.events[at:]
        if self.dice.random() < 0.2:
            self.tables.apply(new, dies=True)
        self.tables.apply(new)
        if self.dice.random() < 0.4:
            record = self.dice.choice(IDS)
            self.tables.apply(read_back=(len(self.events), [self._row(record, len(self.events))]))

    def _copy_again(self) -> None:
        """A snapshot whose watermark lies some events back; those after it come again, but for some that are older than
        the snapshot and change nothing."""
        watermark = self.dice.randint(max(0, len(self.events) - 8), len(self.events))
        shown = [self._row(record, watermark) for record in IDS if self.dice.random() < 0.7]
        again = [each for each in self.events[watermark:] if self.dice.random() < 0.7]
        self.went_back += watermark < len(self.events)
        self.tables.apply(again, snapshot=(watermark, [each for each in shown if not each["_is_deleted"]]))

    def _event(self, position: int) -> dict[str, Any]:
        record = self.dice.choice(IDS)
        kind = self.dice.choice(("CREATE", "CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "UNDELETE", "GAP_UPDATE"))
        values = {"Name": self.dice.choice("XYZ"), "Amount": self.dice.choice((None, 1.0, 2.0))}
        if kind in ("CREATE", "UNDELETE"):
            return change(record, position, kind, **everything(str(values["Name"])))
        return change(record, position, kind, **(values if kind == "UPDATE" else {}))

    def _row(self, record: str, position: int) -> dict[str, Any]:
        if self.dice.random() < 0.15:
            return read(record, position)
        return read(record, position, at=position, Name=self.dice.choice("XYZ"), Amount=self.dice.choice((None, 1.0)))


def live(seed: int, root: str, come_back: int | None = None, in_sql: float = IN_SQL) -> Counter[str]:
    """A history in which consumers ask after every batch, each with the token that it has had since it stopped: one
    for every earlier batch, or so many of them. How often they asked, and how often the history went back."""
    history, counts = History(seed, root), Counter[str]()
    dice_of_consumers = Random(f"consumers:{seed}")
    known: list[tuple[str | None, State]] = [(None, {})]
    for number in range(BATCHES):
        history.batch()
        now = history.tables.living()
        back = known if come_back is None else dice_of_consumers.sample(known[:-1], min(come_back - 1, number))
        for token, state in [*back, *known[-1:]] if come_back else back:
            reported, after = history.tables.since(token)
            counts["asked"] += 1
            what = f"seed {seed}, batch {number}, since {token}"
            assert_reported_once(reported, state, now, what)
            assert fold(state, reported) == now, what
            if history.dice_of_sql.random() < in_sql:
                counts["in SQL too"] += 1
                assert in_order(history.tables.in_sql(token)) == in_order(reported), what
            if token is not None:
                versions, _ = history.tables.since(token, versions=True)
                assert fold(state, versions) == now, f"{what}, versions"
                assert {row["Id"] for row in versions} == {row["Id"] for row in reported}, what
        known.append((after, now))
        assert history.tables.since(after) == ([], after)
    counts["batches that went back"] += history.went_back
    return counts


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_any_two_moments_of_a_history_differ_by_what_is_reported(seed: int, tmp_path: Path) -> None:
    live(seed, str(tmp_path))


def test_a_record_that_a_way_back_leaves_no_version_of_is_reported_as_deleted(tmp_path: Path) -> None:
    tables = Batches(str(tmp_path))
    tables.apply([change("a", 1, "CREATE", **everything("A")), change("b", 2, "CREATE", **everything("B"))])
    tables.apply([change("c", 3, "CREATE", **everything("C")), change("a", 4, Name="X")])
    _, token = tables.since(None)
    tables.apply([change("a", 4, Name="X")], snapshot=(2, [read("a", 2, at=1, Name="A"), read("b", 2, at=2, Name="B")]))
    reported, _ = tables.since(token)
    assert {row["Id"]: row["_op"] for row in reported} == {"a": "update", "c": "delete"}
    assert "c" not in tables.living()


def went_back(tmp_path: Path) -> tuple[Batches, str]:
    """Tables that went back, and a token of before."""
    tables = Batches(str(tmp_path))
    tables.apply([change("a", 1, "CREATE", **everything("A")), change("b", 2, "CREATE", **everything("B"))])
    tables.apply([change("a", 3, Name="X")])
    _, token = tables.since(None)
    shown = [read("a", 2, at=1, Name="A"), read("b", 2, at=2, Name="B")]
    tables.apply([change("a", 3, Name="X"), change("b", 4, Name="Y")], snapshot=(2, shown))
    tables.apply([change("b", 5, Name="Z")])
    return tables, token


def night(tables: Batches, days: int) -> int:
    """Maintenance in so many days, when nothing is new any more; how many files it deletes."""
    then = time.time() - 7_200
    for path in tables.warehouse.folder.rglob("*"):
        os.utime(path, (then, then))
    done = list(maintain(tables.warehouse, Retention(7), NOW + days * 86_400_000))
    assert not [each for each in done if each.failure]
    return sum(each.vacuumed for each in done if each.table != "consistent_cuts")


def test_a_token_of_before_a_way_back_stays_good_for_as_long_as_cuts_are_kept(tmp_path: Path) -> None:
    tables, token = went_back(tmp_path)
    add_cut(tables.warehouse, Cut(CHANNEL, 5, None, {"current_state/Account": tables.pair.rows.version}), AT)
    reported, _ = tables.since(token)
    assert [(row["Id"], row["_op"], row["_before"]["Name"], row["Name"]) for row in reported] == [
        ("a", "update", None, "X"),
        ("b", "update", "B", "Z"),
    ]
    assert sum(night(tables, days) for days in (1, 2)), "files of other versions are deleted"
    assert tables.since(token)[0] == reported
    assert in_order(tables.in_sql(token)) == in_order(reported)
    for days in (8, 9):
        night(tables, days)
    with pytest.raises(ChangesExpired) as error:
        tables.since(token)
    assert error.value.reason == reasons.GONE
    with pytest.raises(duckdb.InvalidInputException, match="SFCDC_CUT_RETENTION_DAYS"):
        tables.in_sql(token)


def test_a_token_of_tables_that_a_backup_has_taken_the_place_of_is_refused_and_no_change_is_left_out(
    tmp_path: Path,
) -> None:
    tables = Batches(str(tmp_path / "tables"))
    tables.apply([change("a", 1, "CREATE", **everything("A"))])
    shutil.copytree(tmp_path / "tables", tmp_path / "backup")
    tables.apply([change("a", 2, Name="X")])
    earlier, (_, token) = tables.pair, tables.since(None)
    tables.apply([change("a", 3, Name="Y")])
    _, newest = tables.since(token)
    assert EntityChanges(tables.warehouse, earlier).since(newest, versions=False)[1] == newest, "it is of a later cut"
    restored = Batches(str(tmp_path / "backup"))
    restored.apply([change("a", 2, Name="X"), change("a", 3, Name="Y"), change("a", 4, Name="Z")])
    with pytest.raises(ChangesExpired, match="a backup, was put in their place") as error:
        restored.since(newest)
    assert error.value.reason == reasons.RESTORED


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00Z", AT.date(), 1.5, b"sfcdc1"])
def test_what_says_no_place_to_begin_is_refused_with_the_ways_to_say_one(tmp_path: Path, since: Any) -> None:
    tables = Batches(str(tmp_path))
    tables.apply([change("a", 1, "CREATE", **everything("A"))])
    with pytest.raises(ValueError, match="or a time as datetime with its zone"):
        tables.since(since)
    assert tables.since(cast("int", numpy.int64(0)))[0] == tables.since(0)[0] != []


def test_without_a_way_back_a_token_needs_no_old_version(tmp_path: Path) -> None:
    tables, _ = went_back(tmp_path)
    _, token = tables.since(None)
    tables.apply([change("a", 6, "DELETE")])
    for name in ("current_state/Account", "history/Account"):
        DeltaTable(tables.warehouse.uri(name)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert [(row["Id"], row["_op"]) for row in tables.since(token)[0]] == [("a", "delete")]


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    total = Counter[str]()
    for each in range(first, last):
        with tempfile.TemporaryDirectory() as beside, memory_folder(Path(beside)) as folder:
            total += live(each, str(folder / "warehouse"), COME_BACK, IN_SQL_OF_MANY)
        cpu = time.process_time()
        print(f"{each + 1 - first} histories, {cpu:.0f} s of CPU: {dict(total)}", flush=True)
