"""Small worlds: every story in every schedule, through the program's own pure core, compared with the org."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass

import polars as pl

from sfcdc_assets_tests.worlds.checks import Difference, differences
from sfcdc_assets_tests.worlds.memory_tables import Reading, Tables
from sfcdc_assets_tests.worlds.schedules import Batch, Schedule, Step
from sfcdc_assets_tests.worlds.stories import Stories


class WorldFails(AssertionError):
    """Some worlds of a crowd are not as the org is."""

    @classmethod
    def of(cls, stories: Stories, schedule: Schedule, found: list[Difference]) -> WorldFails:
        """Show the first of them, with its schedule. Its text is all that it holds: processes hand it to each other."""
        one = found[0]
        column = next(name for name in ("Id", "record_id") if name in one.rows.columns)
        record_id = str(one.rows[column][0])
        story = stories.stories[int(record_id[:-1]) - int(stories.truth["story"].min() or 0)]  # type: ignore[call-overload]
        return cls(
            f"{[(each.what, each.rows.height) for each in found]}\n{story}\n"
            + "\n".join(f"  {step}" for step in schedule)
            + f"\nrecord {record_id}: {one.rows.row(0, named=True)}"
        )


@dataclass
class Count:
    """How many worlds there were, and batches of crowds that the core was run for."""

    worlds: int = 0
    batches: int = 0


def run(stories: Stories, schedules: Iterable[Schedule], count: Count | None = None) -> Count:
    """Run every story in every schedule, those that begin alike together. Raises `WorldFails`."""
    count = count or Count()
    rebuilt: dict[object, tuple[pl.DataFrame, pl.DataFrame]] = {}
    path: list[tuple[Step, Tables]] = []
    for schedule in schedules:
        known = 0
        while known < min(len(path), len(schedule)) and path[known][0] == schedule[known]:
            known += 1
        del path[known:]
        for number in range(known, len(schedule)):
            step = schedule[number]
            tables = _clone(path[-1][1]) if path else Tables(stories)
            _take(tables, step)
            count.batches += isinstance(step, Batch)
            path.append((step, tables))
            if isinstance(step, Batch) and step.commits > 2:
                _expect_nothing(stories, schedule[: number + 1], differences(tables))
        last = path[-1][1]
        _compare_rebuilt(stories, schedule, last, rebuilt)
        count.worlds += len(stories.stories)
    return count


def _take(tables: Tables, step: Step) -> None:
    if isinstance(step, Reading):
        tables.read(step)
    else:
        tables.batch(step.up_to, step.commits)


def _clone(tables: Tables) -> Tables:
    """Return tables that go on by themselves; frames never change."""
    made = copy(tables)
    made.snapshots, made.read_backs, made.noted = [*tables.snapshots], [*tables.read_backs], {*tables.noted}
    return made


def _expect_nothing(stories: Stories, schedule: Schedule, found: list[Difference]) -> None:
    if found:
        raise WorldFails.of(stories, schedule, found)


def _compare_rebuilt(
    stories: Stories, schedule: Schedule, last: Tables, known: dict[object, tuple[pl.DataFrame, pl.DataFrame]]
) -> None:
    """Compare with tables that are built from nothing, in one batch, of what was landed."""
    readings = (*last.snapshots, *last.read_backs)
    key = tuple((each.reading, each.after_read_back, each.rows["Id"].hash().sum()) for each in readings)
    if key not in known:
        whole = Tables(stories, snapshots=[*last.snapshots], read_backs=[*last.read_backs], noted={*last.noted})
        whole.batch(stories.length)
        known[key] = content(whole)
    for what, found, expected in zip(("rows", "history"), content(last), known[key], strict=True):
        if not found.equals(expected):
            names = found.columns
            odd = pl.concat([found.join(expected, on=names, how="anti", nulls_equal=True),
                             expected.join(found, on=names, how="anti", nulls_equal=True)])  # fmt: skip
            _expect_nothing(stories, schedule, [Difference(f"{what} do not depend on batches", odd.sort("Id"))])


def content(tables: Tables) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows and the history, in order, without the numbers of batches."""
    rows, history = tables.rows.drop("_batch", "_first_batch"), tables.superseded.drop("_batch")
    return rows.sort("Id"), history.sort("Id", "_position", "_superseded_at", "_change_type", "_valid_from")


def tables_after(stories: Stories, schedule: Schedule) -> Tables:
    """Return the tables at a schedule's end."""
    tables = Tables(stories)
    for step in schedule:
        _take(tables, step)
    return tables


def explain(stories: Stories, schedule: Schedule) -> Iterator[str]:
    """Yield the tables after each step, for whoever looks into a world that fails."""
    tables = Tables(stories)
    with pl.Config(tbl_cols=-1, tbl_rows=40, fmt_str_lengths=30, tbl_width_chars=260):
        for step in schedule:
            _take(tables, step)
            keep = ["_batch", "_commit_user", "_change_origin", "_dated_by", "_first_batch"]
            yield f"{step}\n{tables.rows.drop(keep)}\n{tables.superseded.drop('_commit_user', '_change_origin')}"
