"""Over random histories of an org, a value that is certain is the one that the org had."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets_tests.examples import examples
from sfcdc_assets_tests.timeline.builders import (
    COLUMNS,
    NAMES,
    change,
    follow,
    frame,
    new_timeline,
    read,
    read_back,
    reads,
    second,
    timeline,
    versions,
)
from sfcdc_assets_tests.timeline.certain import ALL, CREATED, certain

FIELDS = ("Name", "Amount", "Count")
VALUES = {"Name": st.sampled_from(["x", "y", None]), "Amount": st.sampled_from([1.0, None]), "Count": st.integers(0, 2)}


@dataclass
class AnyHistory:
    """What an org did at each second, the changes that tell of it, and reads of it with their watermarks."""

    states: list[dict[str, Any] | None] = field(default_factory=lambda: [None])
    """After each second; None while the record is not there. A deleted one keeps its values and `deleted`."""
    modified: list[int] = field(default_factory=lambda: [0])
    changes: list[dict[str, Any]] = field(default_factory=list)
    proven: dict[int, set[str]] = field(default_factory=dict)
    """Position -> columns that the event or read there proves."""
    org_reads: list[tuple[OrgRead, Any]] = field(default_factory=list)


@st.composite
def histories(draw: st.DrawFn) -> AnyHistory:
    """A record's life, some of its events without a value that they changed, or none that can be read, the first ones
    never seen; read back at times, also by reads that are some changes ahead of their watermark. Before some of the
    reads events were lost, whereupon the entity was suspect."""
    made = AnyHistory()
    length = draw(st.integers(3, 9))
    for now in range(1, length + 1):
        _step(draw, made, now)
    first = draw(st.integers(0, length))
    made.changes = [each for each in made.changes if each["position"] > first]
    watermarks = sorted({*draw(st.sets(st.integers(first, length), max_size=3)), length})
    for number, watermark in enumerate(watermarks, 1):
        seen = watermark if watermark == length else min(length, watermark + draw(st.integers(0, 3)))
        before = watermarks[number - 2] if number > 1 else first
        lost = range(0)
        if draw(st.booleans()) and watermark > before:
            begin = draw(st.integers(before + 1, watermark))
            lost = range(begin, draw(st.integers(begin, watermark)) + 1)
        made.changes = [each for each in made.changes if each["position"] not in lost]
        until = lost.start - 1 if lost else watermark
        org_read = OrgRead(watermark, until, snapshot=number, seen_until=second(until))
        made.org_reads.append((org_read, _seen(made, seen, watermark)))
    return made


def _step(draw: st.DrawFn, made: AnyHistory, now: int) -> None:
    state = made.states[-1]
    if state is None or state["deleted"]:
        kind = "CREATE" if state is None else "UNDELETE"
        values = {name: draw(VALUES[name]) for name in FIELDS} if state is None else {n: state[n] for n in FIELDS}
        made.states.append({**values, "deleted": False})
        silent = {draw(st.sampled_from(FIELDS))} if draw(st.booleans()) else set()
    elif draw(st.integers(0, 3)) == 0:
        kind, values, silent = "DELETE", {}, set()
        made.states.append({**state, "deleted": True})
    else:
        kind = "UPDATE"
        values = {name: draw(VALUES[name]) for name in draw(st.sets(st.sampled_from(FIELDS), min_size=1))}
        made.states.append({**state, **values, "deleted": False})
        silent = {name for name in values if draw(st.integers(0, 3)) == 0}
    made.modified.append(now)
    cells = {name: value for name, value in values.items() if name not in silent}
    if kind in ("CREATE", "UNDELETE"):
        cells = dict.fromkeys(ALL - {*FIELDS}) | cells
    made.changes.append(
        change("a", now, kind, missing="some" if silent else None, unproven=sorted(silent), **cells)
        if kind == "DELETE" or draw(st.integers(0, 5))
        else change("a", now, f"GAP_{kind}")
    )


def _seen(made: AnyHistory, moment: int, watermark: int) -> Any:
    state, at = made.states[moment], {"_read_at": second(moment + 0.5)}
    if state is None:
        return reads([read("a", watermark) | at])
    shown = {name: state[name] for name in FIELDS}
    return reads([read("a", watermark, made.modified[moment], **shown) | {"_is_deleted": state["deleted"]} | at])


def followed(made: AnyHistory) -> list[dict[str, Any]]:
    """All versions, each reading a batch of its own, as the pipeline makes them."""
    rows, timelines, done = new_timeline(COLUMNS, 0).rows, [], -1
    for org_read, shown in made.org_reads:
        batch = Timeline(COLUMNS, rows, 1)
        batch.follow(frame(each for each in made.changes if done < each["position"] <= org_read.until))
        blocked = (each for each in made.changes if max(done, org_read.until) < each["position"] <= org_read.position)
        batch.block(frame(blocked))
        batch.put(org_read, shown)
        timelines.append(batch)
        rows, done = batch.rows, org_read.position
    return versions(*timelines)


@settings(max_examples=examples(0.3))
@given(histories())
def test_a_value_that_is_certain_is_the_orgs_at_each_moment_of_its_version(made: AnyHistory) -> None:
    for version in followed(made):
        ends = version["_valid_to"]
        for moment, state in enumerate(made.states):
            if version["_valid_from"] <= second(moment) and (ends is None or second(moment) < ends) and state:
                certain_then = {name: version[name] for name in certain(version).intersection(FIELDS)}
                assert certain_then == {name: state[name] for name in certain_then}, (moment, version)


@settings(max_examples=examples(0.3))
@given(histories())
def test_a_value_that_an_event_sets_is_certain_in_its_version_and_a_read_makes_all_certain(made: AnyHistory) -> None:
    of_event = {each["position"]: each for each in made.changes}
    for version in followed(made):
        if version["_transaction_key"] is not None:
            cells = {NAMES[cell["column"]] for cell in of_event[version["_position"]]["cells"]}
            assert cells <= certain(version)
        elif version["_change_type"] in ("REFETCH", "SNAPSHOT"):
            assert certain(version) == ALL


@st.composite
def enriched_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A record's updates, some beside a value that it has, has not yet, or never had."""
    made = []
    for position in range(3, 3 + draw(st.integers(1, 6))):
        names = draw(st.sets(st.sampled_from(FIELDS), min_size=1, max_size=2))
        beside = draw(st.sets(st.sampled_from(FIELDS)).map(lambda found, names=names: found - names))
        carried = {name: value for name in sorted(beside) if (value := draw(VALUES[name])) is not None}
        values = {name: draw(VALUES[name]) for name in sorted(names)}
        missing = draw(st.integers(0, 9)) == 0
        lacks = {"missing": "some", "unproven": ["Born"]} if missing else {}
        made.append(change("a", position, enriched=carried, **lacks, **values))
    return made


@given(enriched_events(), st.booleans(), st.integers(0, 3))
def test_versions_of_enriched_events_are_the_same_whatever_the_batches(
    events: list[dict[str, Any]], was_read: bool, ahead: int
) -> None:
    """Also after a read that is ahead of its watermark: no batch is the same as one for each event."""
    first = timeline(CREATED)
    if was_read:
        read_back(first, read("a", 2, 2 + ahead, Name="y", Amount=1.0, Count=1))
    found = []
    for cuts in ([0, len(events)], list(range(len(events) + 1))):
        batches = [first]
        for begin, end in pairwise(cuts):
            batches.append(follow(batches[-1].rows, *events[begin:end]))
        found.append([{**each, "_batch": None} for each in versions(*batches)])
    assert found[0] == found[1]
