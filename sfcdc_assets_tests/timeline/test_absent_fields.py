"""What events say of a field while its object lacked or hid it, where its type was changed later."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Absence, Column
from sfcdc_assets_tests.timeline.builders import COLUMNS, change, everything, follow, row, timeline

KEPT = Column("Active__before_1", ColumnType.STRING, kept_from="Active")
RETYPED = (*(replace(c, absences=(Absence(3, 6),)) if c.name == "Active" else c for c in COLUMNS), KEPT)
"""`Active` was a text, was hidden for a while, and is a boolean now: texts that are none are in `KEPT`."""


def values(position: int, text: str | None, before: bool | None = None) -> tuple[object, object]:
    """What a record with the text `large` or the boolean `before` has after an event that brings the text: as
    `Retyping` gives it, the value in the column of its type and null in the other."""
    first = {"Active": before, KEPT.name: None if before is not None else "large"}
    made = timeline(change("a", 1, "CREATE", columns=RETYPED, **everything("x", **first)), columns=RETYPED)
    later = change("a", position, columns=RETYPED, **{"Active": None, KEPT.name: text})
    found = row(follow(made.rows, later, columns=RETYPED))
    return found["Active"], found[KEPT.name]


def test_a_text_that_does_not_convert_is_the_value_of_a_hidden_field_and_leaves_none_in_its_new_type() -> None:
    assert values(4, "small", before=True) == values(7, "small", before=True) == (None, "small")
    assert values(4, "small") == (None, "small")


def test_a_null_of_a_hidden_field_is_its_value_in_no_type() -> None:
    assert values(4, None) == (None, "large")
    assert values(4, None, before=True) == (True, None)
    assert values(7, None) == values(7, None, before=True) == (None, None)


def test_a_field_without_earlier_values_is_not_concerned_by_one_that_has_them() -> None:
    columns = tuple(replace(c, absences=(Absence(3, 6),)) if c.name == "Amount" else c for c in RETYPED)
    made = timeline(
        change("a", 1, "CREATE", columns=columns, **everything("x", Amount=2.5, Active=True)), columns=columns
    )
    later = change("a", 4, columns=columns, **{"Amount": None, "Active": None, KEPT.name: "small", "Count": None})
    found = row(follow(made.rows, later, columns=columns))
    assert [found[name] for name in ("Amount", "Active", KEPT.name, "Count")] == [2.5, None, "small", None]
