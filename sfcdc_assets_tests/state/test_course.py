"""Rows, versions and texts depend on what was landed, not on the batches it was applied in (guarantees 2, 8, 10)."""

from __future__ import annotations

import datetime as dt

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
from hypothesis import given, settings

from sfcdc_assets.state.baseline import read_schema
from sfcdc_assets.state.course import Course, Reading, TextsKnown
from sfcdc_assets.state.history import history_schema
from sfcdc_assets.state.merge import empty_rows
from sfcdc_assets_tests.state.test_merge import COLUMNS, SCHEMA, change, everything, frame

RECORDS = ("a", "b", "c")
LAST = 12
VERSIONS = history_schema(COLUMNS)
NOTHING_KNOWN = TextsKnown(-1, 0, 0)


@st.composite
def landed(draw):
    """Changes at positions 1 to `LAST`, readings with their pins (the first a snapshot before all of them), and where
    batches end."""
    changes = []
    for position in range(1, LAST + 1):
        record = draw(st.sampled_from(RECORDS))
        kind = draw(st.sampled_from(("CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "UNDELETE", "GAP_UPDATE")))
        cells = {"Count": position}
        if kind in ("CREATE", "UNDELETE"):
            cells = everything(f"n{position}", Count=position)
        elif kind != "UPDATE":
            cells = {}
        changes.append(change(record, position, kind, **cells))
    readings = [reading(draw, 0, 0, snapshot=1)]
    pins = sorted(draw(st.sets(st.integers(1, LAST), max_size=4)))
    numbers = {"snapshot": 1, "refetch": 0}
    for pin in pins:
        kind = draw(st.sampled_from(("snapshot", "refetch", "refetch")))
        numbers[kind] += 1
        readings.append(reading(draw, pin, pin, **{kind: numbers[kind]}))
    return changes, readings


def reading(draw, position, until, records=None, **number):
    """What was read at a pin: of all records some, or those given."""
    chosen = records or draw(st.lists(st.sampled_from(RECORDS), unique=True, min_size=1))
    rows = [
        {
            "Id": record,
            "Name": f"read {position}",
            "Count": draw(st.integers(0, 3)),
            "_is_deleted": False,
            "_system_modstamp": dt.datetime.fromtimestamp(position, dt.UTC),
            "_position": position,
            "_read_at": dt.datetime.fromtimestamp(position, dt.UTC),
        }
        for record in sorted(chosen)
    ]
    table = pa.Table.from_pylist(rows, schema=read_schema(COLUMNS))
    return Reading(position, until, **number), pl.DataFrame(table)


def applied(state, changes, readings, after, up_to):
    """One application as the pipeline makes it: rows and open versions of before, the new readings, the events."""
    rows, opened, closed = state
    course = Course(COLUMNS, NOTHING_KNOWN, rows, opened)
    done = after
    for place, read in readings:
        course.follow(frame([each for each in changes if done < each["position"] <= place.until]))
        course.put(place, read)
        done = place.position
    course.follow(frame([each for each in changes if done < each["position"] <= up_to]))
    return course.rows, course.opened, pl.concat([closed, course.closed])


def sorted_rows(state):
    rows, opened, closed = state
    versions = pl.concat([opened, closed]).sort("Id", "_position", "_valid_from", "_valid_to", nulls_last=True)
    return rows.sort("Id"), versions


BEFORE = (empty_rows(SCHEMA), empty_rows(VERSIONS), empty_rows(VERSIONS))


@settings(max_examples=25)
@given(landed())
def test_applying_all_at_once_is_applying_it_as_it_came(what):
    changes, readings = what
    state = applied(BEFORE, changes, readings[:1], 0, 0)
    position = 0
    for each in readings[1:]:
        # A record in doubt waits: its events are read again from its reading's pin on.
        state = applied(state, changes, [], position, each[0].position)
        state = applied(state, changes, [each], each[0].position, each[0].position)
        position = each[0].position
    state = applied(state, changes, [], position, LAST)
    whole = applied(BEFORE, changes, readings, 0, LAST)
    for found, expected in zip(sorted_rows(whole), sorted_rows(state), strict=True):
        assert found.equals(expected)


@settings(max_examples=25)
@given(landed(), st.integers(1, LAST), st.data())
def test_a_snapshot_that_comes_late_is_put_in_where_its_pin_is(what, pin, data):
    changes, readings = what
    late = reading(data.draw, pin, pin, records=RECORDS, snapshot=9)
    first = applied(BEFORE, changes, readings[:1], 0, LAST)
    rows, opened, closed = first
    course = Course(COLUMNS, NOTHING_KNOWN, rows, pl.concat([opened, closed]))
    course.roll_back(pin)
    course.put(*late)
    course.follow(frame([each for each in changes if each["position"] > pin]))
    versions = pl.concat([course.opened, course.closed])
    whole = applied(BEFORE, changes, [readings[0], late], 0, LAST)
    assert versions.sort("Id", "_position", "_valid_from", "_valid_to", nulls_last=True).equals(sorted_rows(whole)[1])


@settings(max_examples=25)
@given(landed())
def test_the_open_version_of_a_record_is_its_row(what):
    changes, readings = what
    rows, opened, closed = applied(BEFORE, changes, readings, 0, LAST)
    known = rows.filter(~pl.col("_in_doubt"))
    names = [column.name for column in COLUMNS]
    assert (
        opened.join(known.select("Id"), on="Id", how="semi")
        .sort("Id")
        .select(names)
        .equals(known.sort("Id").select(names))
    )
    follows = pl.concat([opened, closed]).sort("Id", "_position", "_valid_from", "_valid_to", nulls_last=True)
    next_from = pl.col("_valid_from").shift(-1).over("Id")
    assert follows.filter(pl.col("_valid_to").ne_missing(next_from)).is_empty()
