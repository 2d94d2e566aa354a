"""Consumers of what has changed in a history's tables, which stop and come back at any cut with any of their tokens.

What one has is folded from what was reported to it, and has to be what the tables are. It keeps what it had at earlier
tokens, so that a call over any time is compared with both ends of it: every record that differs is reported, once, from
what it was to what it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from sfcdc_assets.changes import token as reasons
from sfcdc_assets.changes.token import ChangesExpired
from sfcdc_assets.consistent_cut import ConsistentCut, open_cut
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import CutGone, NoCut, TableDamaged
from sfcdc_assets.lake.tables import open_cut as open_cuts
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.sql.text import value

if TYPE_CHECKING:
    from sfcdc_assets.lake.warehouse import Warehouse

COMES, LOOKS_BACK = 0.6, 0.5
"""Shares of the cuts at which a consumer comes, and of these at which it asks with an earlier token too."""
IN_SQL = 0.15
"""Share of the calls that are asked in SQL too."""
KEPT = 6
"""Earlier tokens."""
CERTAIN = "_certain"

State = dict[str, dict[str, Any]]
"""Record id -> fields, and whether they are certain."""


@dataclass
class Consumer:
    """Of one entity."""

    token: str | None = None
    state: State = field(default_factory=dict)
    earlier: list[tuple[str, State]] = field(default_factory=list)


class Consumers:
    """One for each entity of a simulated."""

    def __init__(self, warehouse: Warehouse, seed: int) -> None:
        self._warehouse = warehouse
        self._dice = Random(f"consumers:{seed}")
        self._of: dict[str, Consumer] = {}
        self.calls = Counter[str]()
        """How many there were, and how many ended with each reason."""

    def come(self) -> None:
        """Let some of them ask."""
        with suppress(NoCut), pytest.MonkeyPatch.context() as patch:
            # Tables are made at times of this machine's clock, cuts at those of the history's.
            patch.setattr(open_cuts, "was_made_after", lambda _, table: table is None)
            cut = open_cut(self._warehouse.root)
            for entity in cut.entities:
                if self._dice.random() < COMES:
                    with suppress(CutGone, TableDamaged):  # rebuilt, or cleaned up by another client, since the cut
                        self._ask(cut, entity)

    def _ask(self, cut: ConsistentCut, entity: str) -> None:
        consumer = self._of.setdefault(entity, Consumer())
        now = living(cut, entity)
        if consumer.earlier and self._dice.random() < LOOKS_BACK:
            token, state = self._dice.choice(consumer.earlier)
            with suppress(_Expired):
                reported, _ = self._changes(cut, entity, token)
                assert_reported_once(reported, state, now, f"{entity} since {token}")
                if self._dice.random() < IN_SQL:
                    assert in_order(in_sql(cut, entity, token)) == in_order(reported), f"{entity} since {token}"
        try:
            reported, token = self._changes(cut, entity, consumer.token)
            versions, _ = self._changes(cut, entity, consumer.token, versions=consumer.token is not None)
        except _Expired:
            self._of[entity] = Consumer()
            return
        assert_reported_once(reported, consumer.state, now, f"{entity} since {consumer.token}")
        if self._dice.random() < IN_SQL:
            assert in_order(in_sql(cut, entity, consumer.token)) == in_order(reported), (
                f"{entity} since {consumer.token}"
            )
        had = with_new_columns(consumer.state, now)
        assert fold(had, versions) == now, f"{entity}: versions since {consumer.token}"
        consumer.state, consumer.token = fold(had, reported), token
        assert consumer.state == now, entity
        nothing, same = self._changes(cut, entity, token)
        assert (nothing, same) == ([], token)
        consumer.earlier = [*consumer.earlier, (token, now)]
        if len(consumer.earlier) > KEPT:
            consumer.earlier.pop(self._dice.randrange(KEPT))

    def _changes(
        self, cut: ConsistentCut, entity: str, token: str | None, *, versions: bool = False
    ) -> tuple[list[dict[str, Any]], str]:
        try:
            reported, after = cut.changes_since(entity, token, versions=versions)
        except ChangesExpired as error:
            self.calls[error.reason] += 1
            raise _Expired from error
        self.calls["answered"] += 1
        rows = Table(f"current_state/{entity}", cut[f"current_state/{entity}"])
        if token is not None and Checkpoint.of(rows, "").rolled_back_in > reasons.Token.parse(token, entity).batch:
            self.calls["through a way back"] += 1
        return reported.to_pylist(), after


class _Expired(Exception):
    """The consumer has to begin again."""


def living(cut: ConsistentCut, entity: str) -> State:
    """What the tables have of records of which more than the Id is known."""
    rows = cut.arrow(entity).to_pylist()
    return {
        row["Id"]: {**fields(row), CERTAIN: not row["_in_doubt"] and row["_certain_fields"] is None}
        for row in rows
        if row["_change_type"] is not None
    }


def in_sql(cut: ConsistentCut, entity: str, token: str | None) -> list[dict[str, Any]]:
    """The same question to the macro."""
    from sfcdc_assets.sql.cut_connection import AskedTables  # noqa: PLC0415 - DuckDB, where it is asked

    with AskedTables(cut._tables) as asked, asked.reading():
        query = f'FROM "{entity.lower()}_changes_since"({value(token)})'
        (statement,) = asked.connection.extract_statements(query)
        found = asked.run(statement).to_arrow_table()
    return found.to_pylist()


def in_order(reported: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By record; the names of fields in the order of columns."""
    return sorted((dict(row) for row in reported), key=lambda row: str(row["Id"]))


def fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def fold(state: State, reported: Iterable[Mapping[str, Any]]) -> State:
    """What a consumer has after what was reported to it."""
    after = dict(state)
    for row in reported:
        if row["_op"] == "delete":
            after.pop(row["Id"], None)
        else:
            after[row["Id"]] = {**fields(row), CERTAIN: row[CERTAIN]}
    return after


def assert_reported_once(reported: list[dict[str, Any]], before: State, now: State, what: str) -> None:
    """Each record once, with what it was; and those that are not reported are as they were."""
    before = with_new_columns(before, now)
    of_record = {row["Id"]: row for row in reported}
    assert len(of_record) == len(reported), f"{what}: reported twice"
    for record_id in before.keys() | now.keys():
        was, is_now, row = before.get(record_id), now.get(record_id), of_record.get(record_id)
        where = f"{what}: {record_id}"
        if row is None:
            assert was == is_now, f"{where} is not reported"
        elif was is not None:
            assert row["_op"] == ("delete" if is_now is None else "update"), where
            changed = {name for name, value in fields(row).items() if value != was.get(name)}
            assert set(row["_changed_fields"]) == changed, where
            assert {name: row["_before"][name] for name in changed} == {name: was.get(name) for name in changed}, where
            assert not any(value is not None for name, value in row["_before"].items() if name not in changed), where
        else:
            assert row["_op"] in ("insert", "undelete"), where
    assert all(of_record[each]["_op"] == "delete" for each in of_record.keys() - before.keys() - now.keys()), what


def with_new_columns(state: State, now: State) -> State:
    """What one had, with null in the columns that have come since: one that is not reported again is null there."""
    columns = dict.fromkeys(next(iter(now.values()), ()))
    return {record_id: columns | row for record_id, row in state.items()}
