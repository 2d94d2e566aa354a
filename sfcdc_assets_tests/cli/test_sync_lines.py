"""The lines that a sync writes while it works: each once, and none of Dagster's own."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.cli.local_dagster.channel_sync import ChannelSync
from sfcdc_assets.cli.local_dagster.channel_turn import Turn
from sfcdc_assets.cli.local_dagster.instance import dagster_instance
from sfcdc_assets.settings.settings import Settings

CHANNEL = "/data/ChangeEvents"


def test_a_reading_that_comes_to_the_same_is_not_reported_twice() -> None:
    sync = ChannelSync(CHANNEL, Settings(), until_caught_up=True)
    said = [
        line
        for outcome in ("1 event landed", "sync done", "all is up to date", "all is up to date", "", "sync done")
        for line in sync.lines(Turn(CHANNEL, outcome, ()), is_last=False)
    ]
    assert said == ["1 event landed", "sync done", "all is up to date", "sync done"]


def test_dagster_does_not_explain_its_telemetry_in_the_middle_of_a_sync(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("python_logs: {python_log_level: INFO}\n")

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def quick() -> None:
        nothing()

    with dagster_instance() as instance:
        run = quick.execute_in_process(instance=instance)
        assert instance.get_run_by_id(run.run_id) is not None
        assert instance.python_log_level == "INFO"
    assert "elemetry" not in "".join(capfd.readouterr())
    assert not (tmp_path / ".telemetry").exists()
