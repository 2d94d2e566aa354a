"""Changes between rows: two that follow one another say what one over both says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.changes.reported_changes import (
    changes_of,
    changes_schema,
    inserts,
    later_than,
    no_rows,
    parted,
    rows_schema,
)
from sfcdc_assets.timeline.version_columns import current_state_schema
from sfcdc_assets_tests.timeline.builders import COLUMNS, second

TABLE = current_state_schema(COLUMNS[:3])
ROWS, SCHEMA = rows_schema(TABLE), changes_schema(TABLE)
NONE = no_rows(TABLE)

State = Mapping[str, tuple[str | None, float | None, bool]]
"""Record id -> its name, its amount, whether it is deleted."""


def row(record_id: str, position: int, of: tuple[str | None, float | None, bool], ends: int | None) -> dict[str, Any]:
    name, amount, deleted = of
    return {
        "Id": record_id, "Name": name, "Amount": amount, "_is_deleted": deleted, "_certain": True,
        "_commit_user": f"u{position}", "_commit_timestamp": second(position), "_change_origin": f"o{position}",
        "_position": position,
        "_superseded_at": ends, "_valid_from": second(position), "_valid_to": second(ends) if ends else None,
        "_batch": 1,
    }  # fmt: skip


def frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(pa.Table.from_pylist(list(rows), schema=ROWS)) if rows else NONE


def reported(before: State, after: State, at: int) -> dict[str, dict[str, Any]]:
    """The changes from one state to another one at a position: of those records whose row differs, as batches mark
    them."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    was = frame([row(key, at - 1, before[key], at) for key in changed if key in before])
    made = changes_of(was, NONE, frame([row(key, at, value, None) for key, value in changed.items()]), SCHEMA)
    return {each["Id"]: each for each in made.to_pylist()}


def composed(first: Mapping[str, dict[str, Any]], second: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What two calls reported, as one."""
    whole = dict(first)
    for key, later in second.items():
        earlier = first.get(key)
        if earlier is None:
            whole[key] = later
            continue
        whole[key] = {**later, "_op": _op(earlier, later)}
        if earlier["_before"] is None:
            whole[key] |= {"_before": None, "_changed_fields": None}
            continue
        was = {name: earlier["_before"][name] for name in earlier["_changed_fields"]}
        was = {name: later["_before"][name] for name in later["_changed_fields"]} | was
        was = {name: value for name, value in was.items() if value != later[name]}
        names = [name for name in ("Name", "Amount") if name in was]
        whole[key] |= {"_before": {name: was.get(name) for name in ("Name", "Amount")}, "_changed_fields": names}
    return whole


def _op(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> str:
    if later["_op"] == "delete":
        return "delete"
    if earlier["_before"] is None:
        return "insert"
    was_deleted = earlier["_op"] == "undelete" or (earlier["_op"] == "delete" and earlier.get("was_deleted"))
    return "undelete" if was_deleted else "update"


VALUES = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1.0, 2.0]), st.booleans())
STATES = st.dictionaries(st.sampled_from("wxyz"), VALUES, max_size=4)


@st.composite
def lives(draw: st.DrawFn) -> list[State]:
    """States that follow one another: a record that is there stays, be it as a deleted one."""
    states: list[State] = [draw(STATES)]
    for _ in range(2):
        states.append({**states[-1], **draw(STATES)})
    return states


@given(lives())
def test_two_calls_report_what_one_over_both_does(states: list[State]) -> None:
    start, middle, end = states
    first, then, whole = reported(start, middle, 10), reported(middle, end, 20), reported(start, end, 20)
    for key, change in first.items():
        change["was_deleted"] = key in start and start[key][2]
    both = composed(first, then)
    assert whole.keys() <= both.keys()
    for key, change in both.items():
        change.pop("was_deleted", None)
        if key in whole:
            # The last row that was reported says when and by whom.
            reported_at = change["_position"]
            of_the_row = ("_position", "_commit_user", "_commit_timestamp", "_change_origin")
            same = {**whole[key], **{n: change[n] for n in of_the_row}}
            assert {**change, "_position": reported_at} == same
        else:
            assert change["_changed_fields"] in ([], None), "what came and went says nothing"


@given(lives())
def test_folding_the_changes_gives_the_rows(states: list[State]) -> None:
    found: dict[str, tuple[Any, ...]] = {}
    for at, (before, after) in enumerate(pairwise(states), 1):
        if at == 1:
            found = {key: value[:2] for key, value in before.items() if not value[2]}
        for key, change in reported(before, after, at * 10).items():
            if change["_op"] == "delete":
                found.pop(key, None)
            else:
                assert (key in found) == (change["_op"] == "update")
                found[key] = (change["Name"], change["Amount"])
    assert found == {key: value[:2] for key, value in states[-1].items() if not value[2]}


def test_versions_are_reported_one_after_another_each_from_the_one_before() -> None:
    chain = frame(
        [row("x", 1, ("a", 1.0, False), 5), row("x", 5, ("b", 1.0, False), 7), row("y", 6, ("n", None, False), 9)]
    )
    now = frame([row("x", 7, ("b", 1.0, True), None), row("y", 9, ("m", None, False), None)])
    before, later = parted(chain, pl.DataFrame({"Id": ["x"]}))
    made = changes_of(before, later, now, SCHEMA).to_pylist()
    assert [(each["Id"], each["_op"], each["_position"], each["_changed_fields"]) for each in made] == [
        ("x", "update", 5, ["Name"]),
        ("x", "delete", 7, []),
        ("y", "insert", 6, None),
        ("y", "update", 9, ["Name"]),
    ]
    assert made[0]["_before"] == {"Name": "a", "Amount": None}
    assert later_than(chain, before).sort("Id", "_position")["_position"].to_list() == [5, 6]


def test_a_value_that_was_null_before_is_named_among_the_changed_fields() -> None:
    (made,) = reported({"x": (None, 1.0, False)}, {"x": ("a", 1.0, False)}, 3).values()
    assert (made["_changed_fields"], made["_before"]) == (["Name"], {"Name": None, "Amount": None})


def test_living_rows_are_inserts_without_anything_before() -> None:
    living = frame([row("x", 1, ("a", 1.0, False), None)]).to_arrow().cast(ROWS)
    (made,) = inserts(living, SCHEMA).to_pylist()
    assert (made["_op"], made["_before"], made["_changed_fields"], made["Name"]) == ("insert", None, None, "a")
