"""Whether what versions call certain was ever so (docs/tables.md, "history/<Entity>"): no blind spot excuses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import inf
from typing import Any

from sfcdc_assets.change_events.columns import Column, columns_of_arrow_schema
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.timeline.suspect_behaviour import MISSING_EVENTS
from sfcdc_assets_tests.pipeline.oracle import Rows, living_at
from sfcdc_assets_tests.pipeline.simulation.read_tables import ms, rows_of
from sfcdc_assets_tests.pipeline.simulation.simulated_history import SimulatedHistory

Row = Mapping[str, Any]
Shows = Callable[[str, Row, str, Any], bool]
"""Whether an entity's row shows a value of the org's in a field."""
READS = {"SNAPSHOT", "REFETCH"}


def never_so(simulated: SimulatedHistory, entity: str, versions: Sequence[Row], shows: Shows) -> Iterator[str]:
    """Describe cells of living versions that are called certain, and whose value the record had at no time at which the
    version is valid, by the org's own log.

    What two versions of one moment differ in was at no time. What a read showed was so when it read, which may be after
    the end of its version, as a version `UNKNOWN` begins before. Two things are left out, as docs/channels.md and
    docs/org-changes.md say that values are called certain meanwhile: changes that raise no event as the object is off
    its channel, or the record outside of a filter, until somebody looks; and a field that was hidden and shown and
    nobody looked in between.
    """
    table = CurrentState.open(simulated.warehouse, entity)
    columns = {each.name.lower(): each for each in (columns_of_arrow_schema(table.schema) if table else ())}
    transactions = list(simulated.org.transactions())
    commit_of = {each.transaction_key: each.commit_number for each in transactions}
    unseen, hidden = _unseen(simulated, entity), _hidden_unnoticed(simulated, entity, columns)
    read_at = {
        (row["Id"], row["_position"]): ms(row["_read_at"])
        for row in rows_of(simulated.warehouse, f"snapshot/{entity}")
        if row["_read_at"] is not None
    }

    @cache
    def org_after(commit_number: int) -> Rows:
        return living_at(simulated.org, entity, commit_number)

    for row in versions:
        since, until = ms(row["_valid_from"]), inf if row["_valid_to"] is None else ms(row["_valid_to"])
        if row["_is_deleted"] or since >= until:
            continue
        if any(since < end or row["_position"] < looked for begin, end, looked in unseen if begin < until):
            continue
        until = max(until, read_at.get((row["Id"], row["_position"]), 0) if row["_change_type"] in READS else 0)
        first = max((each.commit_number for each in transactions if each.commit_timestamp <= since), default=0)
        later = [each.commit_number for each in transactions if since < each.commit_timestamp < until]
        states = [org_after(number)[row["Id"]] for number in (first, *later) if row["Id"] in org_after(number)]
        own = commit_of.get(row["_transaction_key"], first)
        between = _changed_at_once(simulated, entity, min(own, first), max(later, default=first))
        for name in {name for state in states for name in state if name.lower() not in between}:
            column = columns.get(name.lower())
            # Of a field that the object did not have, the log shows null.
            had = [state.get(name) for state in states]
            if column is None or not _is_certain(row, column) or hidden.get(name, inf) < until:
                continue
            if any(shows(entity, row, name, each) for each in had):
                continue
            version = f"{row['Id']} at {row['_position']} ({row['_change_type']}, {since} to {until})"
            yield f"{entity} {version}: {column.name} is {row[column.name]!r}, certain, and was {had[:3]}"


def _unseen(simulated: SimulatedHistory, entity: str) -> list[tuple[int, float, float]]:
    """When changes raised no event, from when until when, and the position from which on versions know that."""
    ledger = [
        (ms(row["opened_at"]), int(row["opened_position"]))
        for row in rows_of(simulated.warehouse, f"gap_reconciliation/{entity}")
        if row["reason"] in MISSING_EVENTS
    ]
    return [
        (
            each.since,
            inf if each.until is None else each.until,
            next((position for at, position in sorted(ledger) if at >= each.since), inf),
        )
        for each in simulated.diary.unseen
        if each.entity == entity and not each.are_hidden
    ]


def _hidden_unnoticed(simulated: SimulatedHistory, entity: str, columns: Mapping[str, Column]) -> dict[str, int]:
    """Fields that were hidden more often than their columns know of, and since when."""
    times = {each.commit_number: each.commit_timestamp for each in simulated.org.transactions()}
    before: frozenset[str] = frozenset()
    since: dict[str, list[int]] = {}
    for each in simulated.diary.hidden:
        if each.entity == entity:
            for name in each.names - before:
                since.setdefault(name, []).append(times.get(each.after_commit, 0))
            before = each.names
    noticed = {name: len(of.absences) + (of.came_at > 0) for name, of in columns.items()}
    return {name: min(at) for name, at in since.items() if len(at) > noticed.get(name.lower(), 0)}


def _changed_at_once(simulated: SimulatedHistory, entity: str, first: int, last: int) -> set[str]:
    """Names, in small letters, of fields that all records got, lost or had changed between two transactions of these:
    the log has the values after transactions only."""
    silent = (
        each for each in simulated.org.silent_changes() if each.entity == entity and first <= each.after_commit <= last
    )
    return {
        name.lower() for each in silent for name in (*each.replaced, *each.added, *each.renamed, *each.renamed.values())
    }


def _is_certain(row: Row, column: Column) -> bool:
    """`_certain_fields` is null where all fields are that the object had then."""
    if column.kept_from is not None or column.is_formula:
        return False
    position, named = row["_position"], row["_certain_fields"]
    if named is not None:
        return column.name in named
    came = {column.came_at, *(each.until for each in column.absences)}
    implied = (each for each in column.absences if each.since not in came)
    is_absent = any(a.since <= position and (a.until is None or position < a.until) for a in implied)
    return column.came_at <= position and not is_absent
