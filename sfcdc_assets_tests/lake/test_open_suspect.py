"""When the org may be asked for a suspect record (again)."""

from __future__ import annotations

import pytest

from sfcdc_assets.lake.tables.open_suspect import OpenSuspect, due
from sfcdc_assets.timeline.suspect import Reason

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000


def suspect(attempts: int = 0, last_attempt_at: int | None = None) -> OpenSuspect:
    return OpenSuspect(
        "001000000000001AAA",
        Reason.GAP_UPDATE,
        None,
        "/data/ChangeEvents",
        1,
        NOW_MS - 10 * MINUTE_MS,
        attempts,
        last_attempt_at,
        None,
    )


def test_a_record_that_was_never_asked_for_is_due() -> None:
    assert due([suspect()], NOW_MS)


@pytest.mark.parametrize("attempts", [1, 3, 200])
def test_one_that_was_asked_for_just_now_waits_an_hour_at_most(attempts: int) -> None:
    asked = [suspect(attempts, NOW_MS)]
    assert not due(asked, NOW_MS)
    assert due(asked, NOW_MS + 60 * MINUTE_MS)


def test_one_that_was_asked_for_by_a_clock_that_was_ahead_is_due_when_it_was_set_back() -> None:
    assert due([suspect(3, NOW_MS + 300 * 24 * 60 * MINUTE_MS)], NOW_MS)
