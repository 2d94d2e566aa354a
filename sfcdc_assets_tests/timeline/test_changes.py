"""Changes: one for each record that an event names."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from sfcdc_assets.change_events import columns
from sfcdc_assets.change_events.columns import ID_COLUMN, Absence
from sfcdc_assets.change_events.kinds_of_time import Unsettled
from sfcdc_assets.timeline import decoded_events
from sfcdc_assets.timeline.changes import CHANGES, RAW_COLUMNS, UNDECODABLE, ChangeReader, names_one_record
from sfcdc_assets_tests.change_events.test_batch_decoder import rows_of
from sfcdc_assets_tests.change_events.written_event import bitmap_of, event_schema, header, optional, payload

SCHEMA = event_schema(optional("Name", "string"))
UPDATE = payload(SCHEMA, header(changedFields=bitmap_of(SCHEMA, "Name")), {"Name": "Acme"})
IDS = ["001Dp00000JJkkHIAT", "001*", "0" * 15 + "AAA", "0" * 14 + "AAA", "0" * 15 + "AAB", "0" * 13 + "AAA", "*", "001"]


@pytest.fixture(params=[1, 10_000], ids=["many at once", "one by one"], autouse=True)
def at_least(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_events, "FEWEST_AT_ONCE", request.param)
    monkeypatch.setattr(decoded_events, "FIELDS_AT_ONCE", 0)


def reader(**options: object) -> ChangeReader:
    return ChangeReader({"schema": json.dumps(SCHEMA)}, columns(SCHEMA), **options)  # type: ignore[arg-type]


def with_ids(rows: pa.Table, ids: list[list[str]]) -> pa.Table:
    return rows.set_column(4, "record_ids", pa.array(ids, pa.list_(pa.string())))


def test_an_event_is_a_change_of_each_record_that_it_names_and_of_no_other() -> None:
    rows = with_ids(rows_of([UPDATE] * 20), [[], IDS, *[[each] for each in IDS], *[["001A", "001B"]] * 10])
    changes = reader().read(rows)
    named = [each for each in IDS if names_one_record(each)]
    assert changes["record_id"].to_pylist() == named * 2 + ["001A", "001B"] * 10
    assert changes["position"].to_pylist()[: len(named)] == [2] * len(named)
    assert changes["position"].to_pylist()[-4:] == [19, 19, 20, 20]


def test_an_event_that_was_published_twice_is_read_once() -> None:
    changes = reader(skipped=[2, 20]).read(with_ids(rows_of([UPDATE] * 20), [["001A"]] * 20))
    assert changes["position"].to_pylist() == [1, *range(3, 20)]


def test_one_broken_event_among_many_is_reported_and_the_others_are_read() -> None:
    rows = with_ids(rows_of([*[UPDATE] * 20, UPDATE[:-1], None]), [["001A"]] * 22)
    changes = reader().read(rows)
    assert changes["change_type"].to_pylist() == ["UPDATE"] * 20 + [UNDECODABLE] * 2
    assert [error is None for error in changes["error"].to_pylist()] == [True] * 20 + [False] * 2
    assert changes["cells"].to_pylist()[19:] == [[{"column": 1, "s": "Acme", "d": None, "l": None}], [], []]


def test_no_events_are_no_changes() -> None:
    changes = reader().read(rows_of([UPDATE]).select(RAW_COLUMNS).slice(0, 0))
    assert (changes.num_rows, changes.schema) == (0, CHANGES)


def test_what_the_schema_of_an_event_lacks_that_sets_all_its_fields_is_not_known_after_it() -> None:
    """The field may have been filled, shown or renamed without an event before the next schema. What is known to be
    gone by then is not said again, and an update says nothing of other fields anyway."""
    name, *_, came, late = columns(event_schema(*(optional(each, "string") for each in ("Name", "Came", "Late"))))[1:]
    gone = replace(came, name="Gone", absences=(Absence(3),))
    wanted = (ID_COLUMN, name, replace(came, came_at=2), replace(late, came_at=9), gone)
    create = payload(SCHEMA, header(changeType="CREATE"), {"Name": "Acme"})
    rows = with_ids(rows_of([create, UPDATE, create, create]), [["001A"]] * 4)
    rows = rows.set_column(5, "change_type", pa.array(["CREATE", "UPDATE", "CREATE", "UNDELETE"]))
    changes = ChangeReader({"schema": json.dumps(SCHEMA)}, wanted).read(rows)
    assert changes["unproven"].to_pylist() == [[4], None, [2], [2]]


def test_of_many_events_those_that_wait_for_a_copy_prove_no_time_that_may_be_of_another_kind() -> None:
    schema = event_schema(optional("F__c", "long", doc="Data:TimeOnly"), optional("Name", "string"))
    both = header(changedFields=bitmap_of(schema, "F__c", "Name"))
    rows = rows_of([payload(schema, both, {"F__c": number, "Name": "x"}) for number in range(20)])
    unsettled = Unsettled(spans=((4, 7), (15, 16)), late=frozenset({2}))
    read = ChangeReader({"schema": json.dumps(schema)}, columns(schema), unsettled=unsettled)
    changes = read.read(with_ids(rows, [["001A"]] * 20))
    assert [at for at, each in enumerate(changes["unproven"].to_pylist(), 1) if each == [1]] == [5, 6, 7, 16]
    assert [len(cells) for cells in changes["cells"].to_pylist()] == [2] * 20
