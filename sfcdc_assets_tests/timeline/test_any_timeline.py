"""Whatever the stream and the reads of the org, the timeline gives what a plain loop over them does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import polars as pl
from hypothesis import given, settings

from sfcdc_assets.change_events.columns import Absence, Column
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets.timeline.version_columns import OF_THE_ROW
from sfcdc_assets_tests.examples import examples
from sfcdc_assets_tests.timeline.builders import (
    COLUMNS,
    NAMES,
    change,
    everything,
    follow,
    frame,
    new_timeline,
    read,
    reads,
    second,
    timeline,
    versions,
)

RECORDS = ("a", "b", "c")
LAST = 12
NAME = st.one_of(st.none(), st.sampled_from(["x", "y", "z"]))
SOME_VALUES = {
    "Name": NAME,
    "Amount": st.one_of(st.none(), st.floats(0, 9)),
    "Count": st.one_of(st.none(), st.integers(0, 9)),
}


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A stream of changes as an org sends them: positions dense, creates first, deletes only of the living."""
    alive: dict[str, bool] = {}
    changes = []
    for position in range(1, draw(st.integers(2, 24))):
        record = draw(st.sampled_from("abcd"))
        if not alive.get(record):
            kind = "UNDELETE" if record in alive else "CREATE"
            changes.append(change(record, position, kind, **everything(draw(NAME), Count=position)))
        elif draw(st.booleans()):
            changes.append(change(record, position, **draw(st.fixed_dictionaries({}, optional=SOME_VALUES))))
        else:
            changes.append(change(record, position, "DELETE"))
        alive[record] = changes[-1]["change_type"] != "DELETE"
    return changes


def plainly(changes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same by a dictionary and a loop."""
    state: dict[str, dict[str, Any]] = {}
    for one in changes:
        found = state.setdefault(one["record_id"], {"_is_deleted": False})
        for cell in one["cells"]:
            found[NAMES[cell["column"]]] = next((v for k, v in cell.items() if k != "column" and v is not None), None)
        if one["change_type"] != "UPDATE":
            found["_is_deleted"] = one["change_type"] == "DELETE"
        found["_position"] = one["position"]
    return state


@given(streams(), st.integers(0, 24), st.integers(0, 26), st.randoms())
def test_rows_and_history_at_any_moment_are_what_a_plain_loop_gives_in_any_batches(
    changes: list[dict[str, Any]], cut: int, moment: int, random: Any
) -> None:
    parts = [changes[:cut], changes[cut:]]
    for part in parts:
        random.shuffle(part)
    first = timeline(*parts[0])
    both = follow(first.rows, *parts[1])
    found = {each["Id"]: each for each in both.rows.to_dicts()}
    expected = plainly(changes)
    assert sorted(both.rows["Id"].to_list()) == sorted(expected)
    for record, values in expected.items():
        assert {name: found[record][name] for name in values} == values
    at = [v for v in versions(first, both) if v["_valid_from"] <= second(moment) < (v["_valid_to"] or second(99))]
    then = plainly([each for each in changes if each["position"] <= moment])
    assert {v["Id"]: (v["_is_deleted"], v["Name"]) for v in at} == {
        record: (values["_is_deleted"], values.get("Name")) for record, values in then.items()
    }
    again = follow(both.rows, *changes)
    assert (again.counts.versions, again.changed) == (0, False)


@st.composite
def landed(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[OrgRead, pl.DataFrame]]]:
    """Changes at positions 1 to `LAST`, and readings with their watermarks, the first a snapshot before all of them."""
    changes = []
    for position in range(1, LAST + 1):
        record = draw(st.sampled_from(RECORDS))
        kind = draw(st.sampled_from(("CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "UNDELETE", "GAP_UPDATE")))
        values: dict[str, Any] = {"Count": position} if kind == "UPDATE" else {}
        if kind in ("CREATE", "UNDELETE"):
            values = everything(f"n{position}", Count=position)
        changes.append(change(record, position, kind, **values))
    org_reads = [reading(draw, 0, snapshot=1)]
    numbers = {"snapshot": 1, "read_back": 0}
    for watermark in sorted(draw(st.sets(st.integers(1, LAST), max_size=4))):
        kind = draw(st.sampled_from(("snapshot", "read_back", "read_back")))
        numbers[kind] += 1
        org_reads.append(reading(draw, watermark, **{kind: numbers[kind]}))
    return changes, org_reads


def reading(
    draw: st.DrawFn, position: int, records: tuple[str, ...] | None = None, **number: int
) -> tuple[OrgRead, pl.DataFrame]:
    """What was read at a watermark: of all records some, or those given."""
    chosen = records or draw(st.lists(st.sampled_from(RECORDS), unique=True, min_size=1))
    rows = [read(each, position, position, Name=f"read {position}", Count=draw(st.integers(0, 3))) for each in chosen]
    return OrgRead(position, position, **number), reads(sorted(rows, key=lambda each: str(each["Id"])))


State = tuple[pl.DataFrame, pl.DataFrame]
"""Rows of `current_state` and of `history`."""
BEFORE: State = (new_timeline(COLUMNS, 0).rows, new_timeline(COLUMNS, 0).superseded)


def applied(
    state: State,
    changes: list[dict[str, Any]],
    org_reads: list[tuple[OrgRead, pl.DataFrame]],
    after: int,
    up_to: int,
    perhaps_older: frozenset[int] = frozenset(),
    columns: Sequence[Column] = COLUMNS,
) -> State:
    """One batch as the pipeline makes it; events that wait for a reading are read again with it."""
    made = Timeline(columns, state[0], 1, perhaps_older)
    done = after
    for checkpoint, rows in org_reads:
        made.follow(frame([each for each in changes if done < each["position"] <= checkpoint.until]))
        made.put(checkpoint, rows)
        done = checkpoint.position
    made.follow(frame([each for each in changes if done < each["position"] <= up_to]))
    return made.rows, pl.concat([state[1], made.superseded])


def ordered(state: State) -> State:
    return state[0].sort("Id"), state[1].sort("Id", "_position", "_superseded_at", "_change_type")


ABSENCES = ((), (Absence(4, 9),), (Absence(4),), (Absence(2, 4), Absence(7, 10)))
"""Of the field that most changes set: never, for a while, up to now, and twice."""


@settings(max_examples=examples(0.6))
@given(
    landed(),
    st.lists(st.integers(0, 14), min_size=LAST, max_size=LAST),
    st.integers(1, 3),
    st.sampled_from(ABSENCES),
)
def test_applying_all_at_once_is_applying_it_as_it_came(
    what: tuple[list[dict[str, Any]], list[tuple[OrgRead, pl.DataFrame]]],
    seconds: list[int],
    size: int,
    absences: tuple[Absence, ...],
) -> None:
    """In batches of any size; some events were committed earlier than their positions say, and a field may have been
    hidden."""
    changes, org_reads = what
    columns = [replace(each, absences=absences) if each.name == "Count" else each for each in COLUMNS]
    for each, earlier in zip(changes, seconds, strict=True):
        each["commit_timestamp"] -= earlier * 1_000_000
    older = frozenset(each["position"] for each, earlier in zip(changes, seconds, strict=True) if earlier)
    state = applied(BEFORE, changes, org_reads[:1], 0, 0, older, columns)
    position = 0
    for watermark, org_read in [*((each[0].position, [each]) for each in org_reads[1:]), (LAST, [])]:
        for end in (*range(position + size, watermark, size), watermark):
            state = applied(state, changes, [], position, end, older, columns)
            position = end
        state = applied(state, changes, org_read, 0, watermark, older, columns) if org_read else state
    whole = applied(BEFORE, changes, org_reads, 0, LAST, older, columns)
    for found, expected in zip(ordered(whole), ordered(state), strict=True):
        assert found.to_dicts() == expected.to_dicts()


@settings(max_examples=examples(0.3))
@given(landed(), st.integers(1, LAST), st.data())
def test_a_snapshot_that_comes_late_is_put_in_where_its_watermark_is(
    what: tuple[list[dict[str, Any]], list[tuple[OrgRead, pl.DataFrame]]], watermark: int, data: st.DataObject
) -> None:
    changes, org_reads = what
    late = reading(data.draw, watermark, records=RECORDS, snapshot=9)
    rows, history = applied(BEFORE, changes, org_reads[:1], 0, LAST)
    late_batch = Timeline(COLUMNS, rows, 1)
    late_batch.roll_back(watermark, history.filter(pl.col("_superseded_at") > watermark))
    late_batch.follow(frame([each for each in changes if each["position"] <= watermark]))
    late_batch.put(*late)
    late_batch.follow(frame([each for each in changes if each["position"] > watermark]))
    kept = history.filter(pl.col("_superseded_at") <= watermark)
    found = ordered((late_batch.rows, pl.concat([kept, late_batch.superseded])))
    for one, other in zip(found, ordered(applied(BEFORE, changes, [org_reads[0], late], 0, LAST)), strict=True):
        assert one.equals(other)


@settings(max_examples=examples(0.3))
@given(landed())
def test_versions_of_a_record_neither_overlap_nor_leave_holes_up_to_its_row(
    what: tuple[list[dict[str, Any]], list[tuple[OrgRead, pl.DataFrame]]],
) -> None:
    changes, org_reads = what
    rows, history = applied(BEFORE, changes, org_reads, 0, LAST)
    current = rows.filter(pl.col("_change_type").is_not_null()).drop(OF_THE_ROW)
    whole = pl.concat([history, current], how="diagonal").sort(
        "Id", "_position", "_superseded_at", "_valid_from", nulls_last=True
    )
    for ends, begins in (("_valid_to", "_valid_from"), ("_superseded_at", "_position")):
        following = pl.col(begins).shift(-1).over("Id")
        assert whole.filter(pl.col(ends).ne_missing(following)).is_empty()
    readable = {(c["record_id"], c["position"]) for c in changes if not c["change_type"].startswith("GAP")}
    uncertain = set(rows.filter("_in_doubt")["Id"].to_list())
    found = set(whole.filter(pl.col("_transaction_key").is_not_null()).select("Id", "_position").iter_rows())
    assert {pair for pair in readable - found if pair[0] not in uncertain} == set(), "every readable event is a version"
