"""What must hold of a life that is over, each against the org's own log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from random import Random
from typing import Any

from sfcdc_assets_tests.pipeline.lives import Life
from sfcdc_assets_tests.pipeline.lives_blind_spots import BlindSpots
from sfcdc_assets_tests.pipeline.lives_tables import ms, rows_of
from sfcdc_assets_tests.pipeline.oracle import Rows, column_fields, expected_rows, living_at

INSTANTS = 5
LAYERS = ("text_fields", "history", "current_state")


class Checks:
    """The checks of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._org = life.org
        self._dice = Random(f"checks:{life.plan.seed}")
        self._transactions = list(life.org.transactions())
        self._blind = BlindSpots(life)
        self._entities = life.org.selected_entities
        self._history = {entity: rows_of(life.warehouse, f"history/{entity}") for entity in self._entities}

    def all(self) -> None:
        """All but rebuilding, which changes the tables."""
        self.current_state_equals_the_org()
        self.versions_follow_one_another()
        self.history_tells_any_moment()
        self.each_cut_is_a_transaction_boundary()
        self.nothing_is_in_doubt_without_a_reason()

    def current_state_equals_the_org(self) -> None:
        now = self._life.clock()
        for entity in self._entities:
            rows = rows_of(self._life.warehouse, f"current_state/{entity}")
            found, expected = {row["Id"]: row for row in rows}, expected_rows(self._org, entity)
            assert len(found) == len(rows), f"{entity}: an Id has more than one row"
            for record_id in found.keys() - expected.keys():
                assert found.pop(record_id)["_is_deleted"], f"{entity} {record_id}: gone for good"
            self._compare(entity, found, expected, now, "at the end")

    def history_tells_any_moment(self) -> None:
        first = {s.entity: s.done_at for s in reversed(self._life.diary.snapshots)}
        moments = [time for time in self._moments() if time >= min(first.values())]
        for moment in sorted({*self._dice.sample(moments, min(INSTANTS, len(moments))), *moments[-1:]}):
            last = max(each.commit_number for each in self._transactions if each.commit_timestamp <= moment)
            for entity in self._entities:
                if first[entity] <= moment:
                    found = living(row for row in self._history[entity] if is_valid(row, moment))
                    self._compare(entity, found, living_at(self._org, entity, last), moment, f"at {moment}")

    def versions_follow_one_another(self) -> None:
        for entity, rows in self._history.items():
            of_record: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in rows:
                of_record[row["Id"]].append(row)
            state = {row["Id"]: row for row in rows_of(self._life.warehouse, f"current_state/{entity}")}
            assert of_record.keys() == state.keys(), entity
            for record_id, versions in of_record.items():
                versions.sort(key=lambda row: (row["_position"], row["_valid_to"] is None, row["_valid_from"]))
                follows = [row["_valid_from"] for row in versions[1:]]
                assert [row["_valid_to"] for row in versions] == [*follows, None], f"{entity} {record_id}"
                assert values(versions[-1]) == values(state[record_id]), f"{entity} {record_id}"

    def each_cut_is_a_transaction_boundary(self) -> None:
        events = first_copies(rows_of(self._life.warehouse, "raw_events"))
        cuts = rows_of(self._life.warehouse, "consistent_cuts")
        assert cuts, "a life leaves a cut"
        for cut in cuts:
            seen = {row["transaction_key"] for row in events if row["position"] <= cut["position"]}
            later = {row["transaction_key"] for row in events if row["position"] > cut["position"]}
            assert not seen & later, "a transaction is in the cut as a whole or not at all"
            first_later = min(
                (row["commit_number"] for row in events if row["position"] > cut["position"]), default=inf
            )
            last = max((t.commit_number for t in self._transactions if t.commit_number < first_later), default=0)
            tables = dict(cut["tables"])
            for entity in self._org.definitions_at(last).keys() & set(self._entities):
                name = f"current_state/{entity}"
                assert name in tables, f"{entity} is not in the cut at {cut['position']}"
                found = living(rows_of(self._life.warehouse, name, tables[name]))
                when = f"in the cut at position {cut['position']}"
                self._compare(entity, found, living_at(self._org, entity, last), ms(cut["applied_at"]), when)

    def nothing_is_in_doubt_without_a_reason(self) -> None:
        """What REST shows late may be read twice, which a diff in between takes for a wrong base."""
        plan = self._life.plan
        if not (plan.holes or plan.visibility or self._org.silent_changes() or self._life.diary.hidden):
            for entity in self._entities:
                assert not rows_of(self._life.warehouse, f"gap_reconciliation/{entity}"), entity

    def _moments(self) -> list[int]:
        """One after each transaction that is not followed by another in the same second."""
        times = sorted({each.commit_timestamp for each in self._transactions})
        ends = [*times[1:], self._life.clock()]
        return [self._dice.randrange(time, end) for time, end in zip(times, ends, strict=True) if end > time]

    def _compare(self, entity: str, found: Rows, expected: Rows, moment: int, when: str) -> None:
        """Same records, same values, but for what is in a blind spot then."""
        blind = self._blind
        for record_id in found.keys() ^ expected.keys():
            where = "the table" if record_id in found else "the org"
            assert blind.cover(entity, record_id, None, moment), f"{entity} {record_id} is only in {where} {when}"
        for record_id in found.keys() & expected.keys():
            row, wanted = found[record_id], expected[record_id]
            wrong = {
                name: (row.get(name), value)
                for name, value in wanted.items()
                if row.get(name) != value and not blind.cover(entity, record_id, name, moment)
            }
            assert not wrong, f"{entity} {record_id} {when}: (table, org) of {wrong}"


def first_copies(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Events without the second copies of those that were published twice."""
    first: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in sorted(events, key=lambda row: row["position"]):
        first.setdefault((row["event_id"], *row["record_ids"]), row)
    return list(first.values())


def assert_rebuilding_gives_the_same_rows(life: Life) -> None:
    """Every layer of every entity, made anew from `raw_events` and `snapshot`.

    It begins with the last snapshot, so that these are not made anew: texts and versions before the last reading of a
    record, rows of records that were gone for good by then, and columns of fields that are gone.
    """
    tables = [f"{layer}/{entity}" for layer in LAYERS for entity in life.warehouse.entities(layer)]
    since = {entity: last_readings(life, entity) for entity in life.warehouse.entities("snapshot")}
    before = {table: rows_after(life, table, since[table.partition("/")[2]]) for table in tables}
    life.rebuild()
    for table, rows in before.items():
        entity = table.partition("/")[2]
        again = rows_after(life, table, since[entity])
        retired = columns_of_gone_fields(life, entity)
        gone = {key for key in rows.keys() - again.keys() if rows[key].get("field") not in retired}
        if table.startswith("current_state") and is_read_again(life, entity):
            gone -= {key for key in gone if rows[key]["_is_deleted"] and life.org.record(entity, key[0]) is None}
        assert not gone, f"{table}: {sorted(gone)[:3]} are not made anew"
        assert again.keys() <= rows.keys(), f"{table}: {sorted(again.keys() - rows.keys())[:3]} were not there"
        for key, row in again.items():
            names = {*row, *rows[key]} - retired
            differs = {name: (rows[key].get(name), row.get(name)) for name in names}
            differs = {
                name: pair for name, pair in differs.items() if known(pair[0], retired) != known(pair[1], retired)
            }
            assert not differs, f"{table} {key}: (before, rebuilt) of {differs}"


def known(value: Any, retired: Collection[str]) -> Any:
    """A value; of names of fields those that are not gone."""
    return [name for name in value if name not in retired] if isinstance(value, list) else value


def is_read_again(life: Life, entity: str) -> bool:
    """Whether a second snapshot was taken."""
    return sum(taken.entity == entity for taken in life.diary.snapshots) > 1


def columns_of_gone_fields(life: Life, entity: str) -> set[str]:
    """Columns whose field the client does not see any more."""
    definition = life.org.field_security.visible(life.org.definitions[entity])
    seen = {field.name for field in column_fields(definition)}
    present = {name for row in rows_of(life.warehouse, f"snapshot/{entity}") for name in row}
    events = {name for row in rows_of(life.warehouse, f"current_state/{entity}") for name in row}
    return {name for name in present | events if not name.startswith("_")} - seen


def last_readings(life: Life, entity: str) -> Callable[[str], int]:
    """Gives the position of the last reading of a record but the first snapshot; -1 if it was never read again."""
    pins = [taken.position for taken in life.diary.snapshots if taken.entity == entity]
    read_back = {
        row["Id"]: row["_position"]
        for row in sorted(rows_of(life.warehouse, f"snapshot/{entity}"), key=lambda row: row["_position"])
        if row["_refetch"] is not None
    }
    of_all = pins[-1] if len(pins) > 1 else -1
    return lambda record_id: max(of_all, read_back.get(record_id, -1))


def rows_after(life: Life, table: str, since: Callable[[str], int]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """A table's rows by what they are about; of texts and versions those after `since`."""
    found = {}
    for row in rows_of(life.warehouse, table):
        key = (row.get("Id") or row["record_id"], row.get("field"), row.get("_change_type"), position(row))
        if table.startswith("current_state"):
            key = key[:1]
        elif position(row) <= since(key[0]):
            continue
        assert key not in found, f"{table}: {key} stands twice"
        found[key] = row
    return found


def position(row: Mapping[str, Any]) -> int:
    """What a version or a text stands for."""
    return row["_position"] if "_position" in row else row["position"]


def is_valid(row: Mapping[str, Any], moment: int) -> bool:
    """Whether a version tells what was then, as a reader asks for it."""
    ends = row["_valid_to"]
    return ms(row["_valid_from"]) <= moment and (ends is None or ms(ends) > moment) and row["_change_type"] != "DELETE"


def living(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Values of the rows that are not deleted, by Id."""
    return {row["Id"]: values(row) for row in rows if not row.get("_is_deleted")}


def values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are the object's."""
    return {name: value for name, value in row.items() if not name.startswith("_")}
