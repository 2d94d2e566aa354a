"""The pause after failures in a row."""

import pytest

from sfcdc_assets.runtime.doubling import doubled


@pytest.mark.parametrize(("failures", "pause"), [(-1, 0), (0, 0), (1, 30), (2, 60), (5, 480), (6, 600), (10**9, 600)])
def test_a_pause_doubles_with_each_failure_up_to_the_longest(failures: int, pause: float) -> None:
    assert doubled(30, 600, failures) == pause


def test_a_first_pause_is_no_longer_than_the_longest_and_none_stays_none() -> None:
    assert doubled(30, 10, 1) == 10
    assert doubled(0, 0, 7) == 0
