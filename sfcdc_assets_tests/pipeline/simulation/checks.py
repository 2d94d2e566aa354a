"""What must hold of a simulated history that is over, each against the org's own log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from math import inf
from random import Random
from typing import Any

from sfcdc_assets.apply.record_cut import NOT_APPLIED
from sfcdc_assets.key_ranges.range_rows import RowCounts
from sfcdc_assets.lake.tables.current_state import CurrentState, noted_counts
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets_tests.pipeline.oracle import Rows, expected_rows, living_at, without_those_gone
from sfcdc_assets_tests.pipeline.simulation.blind_spots import BlindSpots
from sfcdc_assets_tests.pipeline.simulation.certainty import never_so
from sfcdc_assets_tests.pipeline.simulation.read_tables import ms, rows_of, versions_of
from sfcdc_assets_tests.pipeline.simulation.simulated_history import SimulatedHistory
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow, in_order

INSTANTS = 5
KEYS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    # Two reads with one watermark may show two values, of which the stream says nothing.
    "text_fields": lambda row: (
        f"{row['record_id']} {row['field'].lower()} {row['position']} {row['origin']} {row['sha256']}"
    ),
    # A read that has its watermark to an event which it answers is a version beside that of the event, and two reads
    # with one watermark may have seen two changes.
    "history": lambda row: (
        f"{row['Id']} {row['_position']} {row['_change_type']} {row['_transaction_key']} {row['_commit_timestamp']}"
    ),
    "current_state": lambda row: row["Id"],
}
LAYERS = tuple(KEYS)


class Checks:
    """The checks of one simulated."""

    def __init__(self, simulated: SimulatedHistory) -> None:
        self._simulated = simulated
        self._org = simulated.org
        self._dice = Random(f"checks:{simulated.plan.seed}")
        self._transactions = list(simulated.org.transactions())
        self._blind = BlindSpots(simulated)
        self._retyped = retyped(simulated)
        self._entities = simulated.org.selected_entities
        self._history = {entity: versions_of(simulated.warehouse, entity) for entity in self._entities}

    def all(self) -> None:
        """All but rebuilding, which changes the tables."""
        self.current_state_equals_the_org()
        self.versions_follow_one_another()
        self.history_shows_any_moment()
        self.what_is_certain_was_so()
        self.each_cut_is_a_transaction_boundary()
        self.nothing_is_suspect_without_a_reason()
        assert_reported_as_counted(self._simulated)

    def current_state_equals_the_org(self) -> None:
        now = self._simulated.clock()
        for entity in self._entities:
            rows = rows_of(self._simulated.warehouse, f"current_state/{entity}")
            found, expected = {row["Id"]: row for row in rows}, expected_rows(self._org, entity)
            assert len(found) == len(rows), f"{entity}: an Id has more than one row"
            self._compare(entity, without_those_gone(entity, found, expected), expected, now, "at the end")

    def history_shows_any_moment(self) -> None:
        first = {s.entity: s.done_at for s in reversed(self._simulated.diary.snapshots)}
        moments = [time for time in self._moments() if time >= min(first.values())]
        for moment in sorted({*self._dice.sample(moments, min(INSTANTS, len(moments))), *moments[-1:]}):
            last = max(each.commit_number for each in self._transactions if each.commit_timestamp <= moment)
            for entity in self._entities:
                if first[entity] <= moment:
                    found = living(row for row in self._history[entity] if is_valid(row, moment))
                    self._compare_with(entity, found, last, moment, f"at {moment}")

    def versions_follow_one_another(self) -> None:
        for entity, rows in self._history.items():
            of_record: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in rows:
                of_record[row["Id"]].append(row)
            state = {row["Id"]: row for row in rows_of(self._simulated.warehouse, f"current_state/{entity}")}
            assert of_record.keys() == {key for key, row in state.items() if row["_change_type"]}, entity
            assert_versions_follow(rows)
            for record_id, versions in of_record.items():
                assert values(max(versions, key=in_order)) == values(state[record_id]), f"{entity} {record_id}"

    def what_is_certain_was_so(self) -> None:
        """Also where nobody can know: what a version holds there has to be open."""
        for entity, rows in self._history.items():
            never = list(never_so(self._simulated, entity, rows, self._shows))
            assert not never, never[:5]

    def each_cut_is_a_transaction_boundary(self) -> None:
        simulated = self._simulated
        # What a start at LATEST had left out may come after a lost checkpoint, and is in every copy.
        landed = [
            e for e in rows_of(simulated.warehouse, "raw_events") if e["commit_number"] > simulated.diary.left_out
        ]
        events = first_copies(landed)
        if simulated.diary.losses:
            events = in_order_of_commits(events)
        cuts = [
            each
            for each in rows_of(simulated.warehouse, "consistent_cuts")
            if each["channel"] == simulated.plan.channel
        ]
        assert cuts, "a history leaves a cut"
        for cut in cuts:
            seen = {row["transaction_key"] for row in events if row["position"] <= cut["position"]}
            later = {row["transaction_key"] for row in events if row["position"] > cut["position"]}
            assert not seen & later, "a transaction is in the cut as a whole or not at all"
            # What raised no event may have been committed after the cut.
            until = ms(cut["applied_at"]) if simulated.diary.unseen or simulated.diary.losses else inf
            tables = dict(cut["tables"])
            lagging = {each["entity"]: each for each in cut["lagging"]}
            of_then = self._org.definitions_at(self._last_up_to(cut["position"], events, until))
            for entity in of_then.keys() & set(self._entities):
                name = f"current_state/{entity}"
                lag = lagging.get(entity)
                assert name in tables or lag is not None, f"{entity} is not in the cut at {cut['position']}"
                if lag is not None and (name not in tables or lag["reason"] != NOT_APPLIED):
                    continue
                last = self._last_up_to(cut["position"] if lag is None else lag["position"], events, until)
                if tables[name] < self._simulated.diary.unreadable.get(name, 0):
                    continue  # somebody has seen to it that it cannot be read any more
                found = living(rows_of(self._simulated.warehouse, name, tables[name]))
                when = f"in the cut at position {cut['position']}"
                self._compare_with(entity, found, last, ms(cut["applied_at"]), when)

    def _last_up_to(self, position: int, events: Sequence[Mapping[str, Any]], until: float) -> int:
        """The last transaction, committed by a time, of which nothing comes after a position."""
        later = min((row["commit_number"] for row in events if row["position"] > position), default=inf)
        earlier = [each for each in self._transactions if each.commit_number < later]
        return max((each.commit_number for each in earlier if each.commit_timestamp <= until), default=0)

    def nothing_is_suspect_without_a_reason(self) -> None:
        """What REST shows late may be read twice, which a diff in between takes for a wrong base. What was deleted with
        an update of another record may have been merged, which only a read shows. While events are published late, a
        read is ahead of its watermark: a diff that comes after it is to a text that the read shows changed already, and
        of two changes of a record it shows the later one, so that the earlier one's event has the record read again."""
        plan = self._simulated.plan
        if not (
            plan.holes
            or plan.visibility
            or plan.rights_lost
            or plan.losses
            or self._simulated.diary.unseen
            or self._org.silent_changes()
            or self._simulated.diary.hidden
        ):
            for entity in self._entities:
                noted = rows_of(self._simulated.warehouse, f"gap_reconciliation/{entity}")
                expected = {"unproven_diff", "silent_change"} if plan.settings.publishing_lag else set()
                unexpected = [row for row in noted if row["reason"] not in expected]
                assert not [row for row in unexpected if "may have been merged" not in (row["detail"] or "")], entity

    def _moments(self) -> list[int]:
        """One after each transaction that is not followed by another in the same second."""
        times = sorted({each.commit_timestamp for each in self._transactions})
        ends = [*times[1:], self._simulated.clock()]
        return [self._dice.randrange(time, end) for time, end in zip(times, ends, strict=True) if end > time]

    def _shows(self, entity: str, row: Mapping[str, Any], name: str, value: Any) -> bool:
        """Whether a row has a value; one of a field whose type has changed since in a form without loss, or beside."""
        column = name if name in row else next((other for other in row if other.lower() == name.lower()), name)
        if row.get(column) == value:
            return True
        before = [row[other] for other in row if other.startswith(f"{column}__before_")]
        candidates = [row.get(column), *before] if (entity, name.lower()) in self._retyped else []
        return any(org_reads(candidate) & org_reads(value) for candidate in candidates if candidate is not None)

    def _compare_with(self, entity: str, found: Rows, last: int, moment: int, when: str) -> None:
        """Compare with the org right after a transaction."""
        open_ = self._blind.replaced_after(entity, last)
        expected = {
            record_id: {name: value for name, value in row.items() if name.lower() not in open_}
            for record_id, row in living_at(self._org, entity, last).items()
        }
        self._compare(entity, found, expected, moment, when)

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
                if not self._shows(entity, row, name, value) and not blind.cover(entity, record_id, name, moment)
            }
            assert not wrong, f"{entity} {record_id} {when}: (table, org) of {wrong}"


def first_copies(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Events without the second copies of those that were published twice."""
    first: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in sorted(events, key=lambda row: row["position"]):
        first.setdefault((row["event_id"], *row["record_ids"]), row)
    return list(first.values())


def in_order_of_commits(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Events, in the order of their positions, without second copies of such as were lost with their stream: those were
    committed before what came earlier, and are in every copy that answered the loss."""
    found: list[Mapping[str, Any]] = []
    for row in events:
        if not found or row["commit_number"] >= found[-1]["commit_number"]:
            found.append(row)
    return found


def org_reads(value: Any) -> set[object]:
    """What a value says, whatever its type: a number, a truth, a day or a moment may have become text or been one."""
    if not isinstance(value, str):
        return {datetime(value.year, value.month, value.day, tzinfo=UTC)} if type(value) is date else {value}
    found: set[object] = {value, {"true": True, "false": False}.get(value.lower(), value)}
    with suppress(ValueError):
        found.add(float(value))
    with suppress(ValueError):
        moment = datetime.fromisoformat(value)
        found.add(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return found


def assert_rebuilding_gives_the_same_rows(simulated: SimulatedHistory) -> None:
    """Every layer of every entity, rebuilt from `raw_events` and `snapshot`, to the last mark."""
    simulated.hear_of_losses()
    before = layers_of(simulated)
    simulated.rebuild()
    again = layers_of(simulated)
    for table, rows in before.items():
        gone, new = rows.keys() - again[table].keys(), again[table].keys() - rows.keys()
        assert not gone, f"{table}: {sorted(gone)[:3]} are not rebuilt"
        assert not new, f"{table}: {sorted(new)[:3]} were not there"
        for key, row in rows.items():
            rebuilt = again[table][key]
            differs = {name: (row.get(name), rebuilt.get(name)) for name in {*row, *rebuilt}}
            differs = {name: pair for name, pair in differs.items() if pair[0] != pair[1]}
            assert not differs, f"{table} {key}: (before, rebuilt) of {differs}"
    assert_reported_as_counted(simulated)


def assert_reported_as_counted(simulated: SimulatedHistory) -> None:
    """What `sfcdc status` reports without reading rows is what counting all rows gives, whoever packed files, cleaned
    up logs, died or rebuilt meanwhile."""
    for entity in simulated.warehouse.entities("current_state"):
        table, ledger = CurrentState.open(simulated.warehouse, entity), Ledger.open(simulated.warehouse, entity)
        taken = Snapshots.open(simulated.warehouse, entity)
        assert table is not None
        assert taken is not None
        rows = rows_of(simulated.warehouse, f"current_state/{entity}")
        flagged = (sum(row[flag] for row in rows) for flag in ("_is_deleted", "_in_doubt"))
        assert noted_counts(table.table) == RowCounts(len(rows), *flagged), entity
        suspects = rows_of(simulated.warehouse, f"gap_reconciliation/{entity}")
        still_open = Counter(row["reason"] for row in suspects if row["status"] == "open")
        assert (ledger.counts() if ledger else {}) == dict(still_open), entity
        progress = taken.progress()
        assert progress is not None
        assert taken.standing() == (progress.snapshot_number, progress.rows_done, progress.complete), entity


def layers_of(simulated: SimulatedHistory) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows of every table that can be rebuilt, by what they are about."""
    changed = retyped(simulated)
    return {
        # A field that became a large text, or was one, has other texts when it is rebuilt.
        f"{layer}/{entity}": by_key(
            layer,
            [
                row
                for row in rows_of(simulated.warehouse, f"{layer}/{entity}")
                if (entity, (row.get("field") or "").lower()) not in changed
            ],
        )
        for layer in LAYERS
        for entity in simulated.warehouse.entities(layer)
    }


def retyped(simulated: SimulatedHistory) -> set[tuple[str, str]]:
    """Entities and names, in small letters, of fields whose values became others at once."""
    return {(each.entity, name.lower()) for each in simulated.org.silent_changes() for name in each.replaced}


def by_key(layer: str, rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by what they are about. The names of fields are in small letters."""
    found = {}
    for row in rows:
        key = KEYS[layer](row)
        assert key not in found, f"{layer}: {key} stands twice"
        description = {_small(name): value for name, value in row.items()} | {"_batch": None, "_first_batch": None}
        # Names of fields in the order of the columns, which are in another one when a table is rebuilt.
        if row.get("_changed_fields") is not None:
            description["_changed_fields"] = sorted({*map(_small, row["_changed_fields"])})
        if "_certain_fields" in row:
            certain = row["_certain_fields"]
            known = values(row).keys() if certain is None else certain
            description["_certain_fields"] = sorted({*map(_small, known)} - {"id"})
        found[key] = description
    return found


def _small(name: str) -> str:
    """The name of a field whatever its case: a table that is rebuilt has its columns in the case of today."""
    return name if name.startswith("_") else name.lower()


def is_valid(row: Mapping[str, Any], moment: int) -> bool:
    """Whether a version says what was then, as a reader asks for it."""
    ends = row["_valid_to"]
    return ms(row["_valid_from"]) <= moment and (ends is None or ms(ends) > moment) and not row["_is_deleted"]


def living(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Values of the rows that are not deleted, by Id."""
    return {row["Id"]: values(row) for row in rows if not row.get("_is_deleted")}


def values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are the object's."""
    return {name: value for name, value in row.items() if not name.startswith("_")}
