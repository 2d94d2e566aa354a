"""A slice of the small worlds, and proof that it would notice: each mutant of the core fails in it."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import polars as pl
import pytest

from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.streams.resume import StreamProgress
from sfcdc_assets.timeline import resolve, timeline
from sfcdc_assets.timeline.timeline import Timeline
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.worlds import landing_worlds, memory_tables
from sfcdc_assets_tests.worlds.__main__ import main
from sfcdc_assets_tests.worlds.bounds import Bound
from sfcdc_assets_tests.worlds.checks import Difference
from sfcdc_assets_tests.worlds.landing_worlds import LandingFails
from sfcdc_assets_tests.worlds.memory_tables import Reading
from sfcdc_assets_tests.worlds.schedules import Batch, Schedule, schedules
from sfcdc_assets_tests.worlds.stories import Stories, all_stories, in_crowds
from sfcdc_assets_tests.worlds.worlds import Count, WorldFails, content, run, tables_after

EVERY = 1_499
"""Of the schedules with a reading and a crash; a prime number, so that all kinds of them are among these."""
EVERY_WITH_TWO = 149


def a_slice(every: int = EVERY, *first: Schedule) -> Count:
    """Every story of two events, in some of the schedules, those of `first` before them."""
    count = Count()
    for crowd in in_crowds(all_stories(2), 10_000):
        run(crowd, first, count)
    for crowd in in_crowds(all_stories(2), 10_000):
        run(crowd, islice(schedules(2, 1, 1), 0, None, every), count)
    return count


def test_fewer_worlds_than_asked_for_are_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--processes", "1", "--length", "1", "--worlds"]
    assert main([*words, "100000000"], [Bound(1, 0, 0, 0)]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"only [\d,]+ worlds: the bounds have no more", last)
    assert main([*words, "1"], [Bound(1, 0, 0, 0)]) == 0


def test_the_command_runs_in_processes_which_cannot_import_what_stands_in_its_own_module() -> None:
    command = [sys.executable, "-m", "sfcdc_assets_tests.worlds", "--length", "1", "--worlds", "1", "--schedules", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[\d,]{2,} worlds, [\d,]+ per second of CPU$", done.stdout, re.MULTILINE)


def test_a_process_hands_on_which_world_fails() -> None:
    crowd = next(in_crowds(all_stories(1), 10_000))
    schedule = next(iter(schedules(1, 0, 0)))
    failed = WorldFails.of(crowd, schedule, [Difference("rows", pl.DataFrame({"Id": ["0000000a"]}))])
    assert str(pickle.loads(pickle.dumps(failed))) == str(failed)


def test_every_story_of_an_event_is_told_truly_in_some_of_its_schedules_with_two_readings() -> None:
    crowd = next(in_crowds(all_stories(1), 10_000))
    assert run(crowd, islice(schedules(1, 2, 1, 1), 0, None, EVERY_WITH_TWO)).worlds > 2_500


def test_a_record_that_was_read_after_an_overflow_is_not_in_doubt_for_it_however_batches_are_cut() -> None:
    """A rebuild marked the record for the snapshot from before the overflow, though a read-back had shown it since."""
    schedule = (
        Reading(0, 0, is_snapshot=True), Batch(0), Batch(1), Reading(0, 0, is_snapshot=True), Batch(1),
        Reading(1, 1), Batch(1),
    )  # fmt: skip
    run(next(in_crowds(all_stories(1), 10_000)), [schedule])


def test_every_story_of_two_events_is_told_truly_in_some_of_its_schedules() -> None:
    assert a_slice().worlds >= 4_800


def test_a_story_alone_becomes_what_it_becomes_in_a_crowd() -> None:
    """Where no record of a batch needs it, the core takes shorter ways; in a crowd some record always does."""
    crowd = next(in_crowds(all_stories(2), 10_000))
    schedule = next(islice(schedules(2, 1, 0), 100, None))
    together = content(tables_after(crowd, schedule))
    for number in range(0, len(crowd.stories), 131):
        alone = content(tables_after(Stories.of([crowd.stories[number]], number), schedule))
        ids = [f"{number:07d}a", f"{number:07d}b"]
        for found, expected in zip(alone, together, strict=True):
            assert found.equals(expected.filter(pl.col("Id").is_in(ids)))


def test_every_short_stream_is_landed_once_whatever_two_readers_do() -> None:
    assert landing_worlds.run_all(3, 3) > 2_000


def _none_belong(*_: Any) -> str:
    return "false"


def _no_suspects(met: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(schema=resolve.SUSPECTS)


MUTANTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "what a crashed batch left is read": (Checkpoint, "not_part", _none_belong),
    "gaps are trusted": (resolve, "_suspects_of_kind", _no_suspects),
    "missing values are trusted": (resolve, "_suspects_of_missing", _no_suspects),
    "an unknown record is made of its update": (resolve, "_suspects_of_unknown", _no_suspects),
    "a late snapshot stands on top": (Timeline, "roll_back", lambda *_: None),
    "what an overflow may hide is applied": (Timeline, "suspect_before", lambda *_: None),
    "blocked events are forgotten": (Timeline, "block", lambda *_: None),
    "nothing is marked": (timeline, "marked", lambda rows, _: rows),
    "texts are doubled": (memory_tables.Tables, "_once", lambda _, texts, *__: pl.concat([texts, texts])),
}
EVERY_OF_A_MUTANT = 211
AFTER_AN_OVERFLOW = (Reading(0, 0, is_snapshot=True), Batch(0), Batch(2), Reading(2, 2, is_snapshot=True), Batch(2))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_core_that_is_wrong_in_one_place_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(WorldFails):
        a_slice(EVERY_OF_A_MUTANT, AFTER_AN_OVERFLOW)


LANDING_MUTANTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "a replay id is whole after its first event": (
        StreamProgress,
        "_mark",
        lambda self: self._unmarked.clear(),
    ),
    "all of ours is still to be landed": (landing_worlds, "not_landed_yet", lambda events, *_: events),
    "all of ours is landed": (landing_worlds, "not_landed_yet", lambda *_: []),
    "every event ends its transaction": (
        landing_worlds,
        "completed_by",
        lambda before, positions, _: positions[-1] if positions else before.complete_position,
    ),
    "no transaction ends": (landing_worlds, "completed_by", lambda before, *_: before.complete_position),
}


@pytest.mark.parametrize("name", LANDING_MUTANTS)
def test_landing_that_is_wrong_in_one_place_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = LANDING_MUTANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(LandingFails):
        landing_worlds.run_all(3, 4)
