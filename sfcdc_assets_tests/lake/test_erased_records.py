"""Which events are kept without an erased record, by when they were committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sfcdc_assets.lake.tables.erasure_receipts import ErasedRecords, Erasure, OnNewEvent, hash_of

PERSON = "003Xa000000CaRaIAK"
AT = datetime(2026, 11, 26, 12, 0, 0, 400_000, UTC)


def erased(policy: OnNewEvent) -> ErasedRecords:
    return ErasedRecords({hash_of(PERSON): Erasure(AT, policy)}, frozenset([PERSON[:3]]))


@pytest.mark.parametrize(("seconds", "is_erased"), [(-60, True), (0, True), (1, False), (60, False)])
def test_an_event_begins_a_new_life_from_the_second_after_the_erasure_on(seconds: int, is_erased: bool) -> None:
    committed_at = AT.replace(microsecond=0) + timedelta(seconds=seconds)  # as Salesforce names it: the second
    assert erased(OnNewEvent.NEW_LIFE).is_erased_in(PERSON, committed_at) is is_erased
    assert erased(OnNewEvent.REFUSE).is_erased_in(PERSON, committed_at)


def test_events_of_others_are_kept_as_they_are() -> None:
    assert not erased(OnNewEvent.REFUSE).is_erased_in("003Xa000000CaRbIAK", AT - timedelta(days=1))
