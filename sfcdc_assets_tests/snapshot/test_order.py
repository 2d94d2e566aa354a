from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.orchestration.assets.snapshots import smallest_first

NAMES = [f"Object_{number}__c" for number in range(6)]
COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 50))


@given(st.permutations(NAMES), COUNTS, COUNTS)
def test_no_entity_is_lost_and_none_waits_for_one_of_which_more_is_left(
    entities: list[str], records: dict[str, int], done: dict[str, int]
) -> None:
    order = smallest_first(entities, records, done)
    assert sorted(order) == sorted(entities)
    left = [max(0, records[entity] - done.get(entity, 0)) for entity in order if entity in records]
    assert left == sorted(left)
    assert [entity in records for entity in order] == sorted((entity in records for entity in order), reverse=True)


def test_what_was_begun_comes_before_what_is_as_large() -> None:
    records = {"Account": 10, "Case": 30, "Lead": 10}
    assert smallest_first(["Account", "Lead", "Case"], records, {"Case": 20}) == ["Case", "Account", "Lead"]
    assert smallest_first(["Lead", "Account"], {}, {"Account": 5}) == ["Account", "Lead"]
