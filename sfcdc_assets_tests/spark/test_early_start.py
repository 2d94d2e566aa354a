"""Spark that is started ahead: once, without harm, and without a job of nothing when there is a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark import session, warm_up
from sfcdc_assets.spark.early_start import EarlySpark
from sfcdc_assets_tests.eventually import BOUND_SECONDS

SETTINGS = Settings.model_construct()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Puts something in the place of Spark; what was done is noted."""

    def stand_in(start: Callable[[], object]) -> list[str]:
        done: list[str] = []

        def started(settings: Settings) -> Any:
            done.append("started")
            return start()

        monkeypatch.setattr(session, "spark_session", started)
        monkeypatch.setattr(warm_up, "warm_up", lambda session: done.append("warm"))
        return done

    return stand_in


def join(early: EarlySpark) -> None:
    assert early._thread is not None
    early._thread.join(BOUND_SECONDS)
    assert not early._thread.is_alive()


def test_it_is_started_once_and_runs_a_job_of_nothing(begun: Callable[..., list[str]]) -> None:
    done, early = begun(object), EarlySpark(SETTINGS)
    early.start()
    early.start()
    join(early)
    assert done == ["started", "warm"]


def test_a_batch_that_comes_before_it_is_there_has_it_to_itself(begun: Callable[..., list[str]]) -> None:
    may_go_on = threading.Event()
    done, early = begun(lambda: may_go_on.wait(BOUND_SECONDS)), EarlySpark(SETTINGS)
    early.start()
    early.hand_over()
    may_go_on.set()
    join(early)
    assert done == ["started"]


def test_what_goes_wrong_is_left_to_who_needs_the_session(begun: Callable[..., list[str]]) -> None:
    def fails() -> None:
        raise RuntimeError("no Java")

    done, early = begun(fails), EarlySpark(SETTINGS)
    early.start()
    join(early)
    assert done == ["started"]
