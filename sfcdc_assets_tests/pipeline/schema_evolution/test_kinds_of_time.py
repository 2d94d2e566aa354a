"""A time of day, a date and a moment are the same long in an event, and the schema's id is the same for all of them: a
value that another one of them would be as well is not certain where the field may have been either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.simulation.checks import org_reads
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of

pytestmark = pytest.mark.slow

VALUES = {
    "time": ["18:36:00.000", "00:00:00.000"],
    "date": ["2024-02-29", "1970-01-01"],
    "datetime": ["2024-02-29T10:15:00Z", "2024-03-01T00:00:00Z", "1970-01-01T08:11:00Z", "1970-01-01T00:00:00Z"],
}
"""Of each kind: such as no other kind is, and such as others are too."""
FIELDS = {f"{old}_{new}__c": (old, new) for old, new in permutations(VALUES, 2)}
"""A field for each two kinds: what it is, and what it becomes."""
RECORDS = sum(len(VALUES[old]) for old, _ in FIELDS.values())


@pytest.fixture(params=["pubsub", "cometd"])
def pipeline(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[QuietPipeline]:
    """One whose copy has the fields. In JSON a time of day is a text of its own, and read as nothing else."""
    monkeypatch.setenv("SFCDC_TRANSPORT", request.param)
    with quiet(tmp_path, monkeypatch, RECORDS) as opened:
        for name, (old, _) in FIELDS.items():
            opened.org.setup.add_field(ENTITY, name, {"type": old})
        opened.sync()
        yield opened


def become(pipeline: QuietPipeline, which: int) -> None:
    """Make each field what it was (0), or what it becomes (1)."""
    for name, kinds in FIELDS.items():
        pipeline.org.setup.change_type(ENTITY, name, {"type": kinds[which]})


def write(pipeline: QuietPipeline, which: int) -> dict[str, str]:
    """Give each field each value of such a type, one a record; return what each record got."""
    given = {}
    values = ((name, value) for name, kinds in FIELDS.items() for value in VALUES[kinds[which]])
    for record_id, (name, value) in zip(pipeline.ids(), values, strict=True):
        pipeline.clock.advance(1_000)
        pipeline.update(record_id, **{name: value})
        given[record_id] = value
    return given


def assert_certain_was_so(pipeline: QuietPipeline, given: Mapping[str, str]) -> None:
    """What versions of the updates call certain is what was written, in the field's type of today or beside it."""
    proven = set()
    for row in versions_of(pipeline.warehouse, ENTITY):
        if row["_change_type"] != "UPDATE":
            continue
        written, certain = given[row["Id"]], row["_certain_fields"]
        for name in {*FIELDS} & {*row["_changed_fields"]} & {*(certain or FIELDS)}:
            shown = [value for column, value in row.items() if column.startswith(name) and value is not None]
            assert any(org_reads(each) & org_reads(written) for each in shown), (name, row["_position"], shown)
            proven.add(name)
    assert proven >= {"date_datetime__c", "datetime_date__c"}, "a date is the moment at its midnight"


def test_what_was_written_before_a_type_changed_and_is_applied_after_it_is_not_certain_as_another_value(
    pipeline: QuietPipeline,
) -> None:
    # With another schema the object is described before its events are applied.
    pipeline.org.setup.add_field(ENTITY, "More__c", {"type": "string"})
    given = write(pipeline, 0)
    become(pipeline, 1)
    pipeline.catch_up()
    pipeline.sync()
    assert not pipeline.open_suspects()
    assert_certain_was_so(pipeline, given)
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before


def test_what_was_written_while_nobody_looked_that_the_type_was_another_one_is_not_certain_as_another_value(
    pipeline: QuietPipeline,
) -> None:
    become(pipeline, 1)
    given = write(pipeline, 1)
    become(pipeline, 0)
    pipeline.catch_up()
    pipeline.sync()
    assert not pipeline.open_suspects()
    assert_certain_was_so(pipeline, given)


def test_what_comes_after_the_copy_and_was_written_before_the_type_changed_is_not_certain_and_is_read(
    pipeline: QuietPipeline,
) -> None:
    """Events may be published minutes after their transactions, and a copy is made in between."""
    pipeline.settings(publishing_lag=600_000)
    given = write(pipeline, 0)
    become(pipeline, 1)
    pipeline.snapshot(1, retypes=True)
    pipeline.catch_up()
    pipeline.clock.advance(600_000)
    pipeline.catch_up()
    assert_certain_was_so(pipeline, given)
    pipeline.sync()
    assert not pipeline.open_suspects()
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before


def test_a_time_of_day_that_became_a_text_is_the_same_when_its_event_is_read_again(pipeline: QuietPipeline) -> None:
    """Both are texts in the tables; in an event the one is a long, of which a doc of before it was a time says no
    more."""
    record_id = pipeline.ids()[0]
    for kind, value in (("time", "18:36:00.000"), ("string", "late")):
        pipeline.org.setup.change_type(ENTITY, "datetime_time__c", {"type": kind})
        pipeline.update(record_id, Phone=kind)
        pipeline.catch_up()
        pipeline.sync()
        pipeline.clock.advance(1_000)
        pipeline.update(record_id, datetime_time__c=value)
        pipeline.catch_up()
    shown = [row["datetime_time__c"] for row in versions_of(pipeline.warehouse, ENTITY) if row["Id"] == record_id]
    assert {*shown} >= {"18:36:00.000", "late"}
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before
