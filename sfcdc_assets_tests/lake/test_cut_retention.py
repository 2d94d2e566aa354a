"""Which cuts are kept: fewer the older they are, and never one again that was not kept before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.lake.maintenance.maintain import retention_of
from sfcdc_assets.lake.tables.cut_retention import CutRetention
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.environment import without_settings

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
RETENTION = CutRetention()


def cuts(seconds_ago: list[int], channel: str = "/data/ChangeEvents") -> pl.DataFrame:
    """In the order in which they were reached, each with the next position."""
    reached = [NOW - timedelta(seconds=ago) for ago in sorted(seconds_ago, reverse=True)]
    return pl.DataFrame(
        {"channel": [channel] * len(reached), "position": range(len(reached)), "applied_at": reached},
        schema={"channel": pl.String, "position": pl.Int64, "applied_at": pl.Datetime("us", "UTC")},
    )


def kept(rows: pl.DataFrame, at: datetime = NOW) -> list[int]:
    return rows.filter(RETENTION.kept(rows, at))["position"].to_list()


def test_of_a_week_of_batches_every_five_seconds_eight_hundred_cuts_are_kept() -> None:
    rows = cuts(list(range(0, 8 * 86_400, 5)))
    ages = [(NOW - reached).total_seconds() for reached in rows.filter(RETENTION.kept(rows, NOW))["applied_at"]]
    assert sum(age <= 3_600 for age in ages) == 721
    assert sum(3_600 < age <= 7_200 for age in ages) == 60
    assert sum(7_200 < age <= 86_400 for age in ages) == 22
    assert sum(86_400 < age <= 7 * 86_400 for age in ages) == 6
    assert max(ages) <= 7 * 86_400


def test_each_setting_is_the_one_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)
    given = {"RETENTION_DAYS": 9, "BATCH_HOURS": 3, "MINUTE_HOURS": 5, "HOUR_HOURS": 70}
    for name, value in given.items():
        monkeypatch.setenv(f"SFCDC_CUT_{name}", str(value))
    found = retention_of(Settings(_env_file=None))
    assert (found.cut_days, found.batch_cut_hours, found.minute_cut_hours, found.hour_cut_hours) == (9, 3, 5, 70)
    assert found.of_cuts == CutRetention(9, 70, 5, 3)


def test_the_newest_of_each_channel_is_kept_however_old_it_is() -> None:
    rows = pl.concat([cuts([90 * 86_400, 80 * 86_400]), cuts([10, 5], "/data/Sales__chn")])
    assert rows.filter(RETENTION.kept(rows, NOW)).rows() == [rows.row(1), rows.row(2), rows.row(3)]


@given(
    st.lists(st.integers(0, 9 * 86_400), max_size=60),
    st.lists(st.integers(1, 3 * 86_400), min_size=1, max_size=6),
)
def test_forgetting_again_and_again_keeps_what_forgetting_once_keeps(ages: list[int], passes: list[int]) -> None:
    """What was forgotten is not missed later: a cut that is not kept now is kept at no later time."""
    rows, at = cuts(ages), NOW
    left = rows
    for seconds in passes:
        left = left.filter(RETENTION.kept(left, at))
        at += timedelta(seconds=seconds)
    at -= timedelta(seconds=passes[-1])
    assert left.filter(RETENTION.kept(left, at)).rows() == rows.filter(RETENTION.kept(rows, at)).rows()
