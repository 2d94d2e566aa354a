"""The other forms of `sfcdc status`: metrics, printed and served, and its log as JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from sfcdc_assets_tests.cli.command import SCRIPT, sfcdc
from sfcdc_assets_tests.eventually import BOUND_SECONDS


def test_metrics_are_printed_even_of_a_warehouse_that_is_empty() -> None:
    result = sfcdc("status", "--prometheus")
    assert (result.exit_code, result.stderr) == (0, "")
    names = {family.name for family in text_string_to_metric_families(result.stdout) if family.samples}
    assert {"sfcdc_channel_position", "sfcdc_cuts", "sfcdc_status_timestamp_seconds"} <= names


@pytest.mark.parametrize(
    "forms", [("--json", "--prometheus"), ("--prometheus", "--serve", "0"), ("--json", "--fail-if-stale", "5m")]
)
def test_one_form_is_asked_for_at_a_time(forms: tuple[str, ...]) -> None:
    result = sfcdc("status", *forms)
    assert result.exit_code == 2
    assert "cannot be combined" in result.stderr


def test_metrics_are_served_until_sigterm_and_all_that_is_said_beside_them_is_json(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [str(SCRIPT), "status", "--serve", "0"],
        env={**os.environ, "SFCDC_LOG_FORMAT": "json", "SFCDC_WAREHOUSE": str(tmp_path / "warehouse")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    begun = json.loads(process.stderr.readline())
    address = re.search(r"http://127\.0\.0\.1:\d+/metrics", begun["event"])
    assert address is not None
    answer = requests.get(address[0], timeout=BOUND_SECONDS)
    assert "sfcdc_cuts 0.0" in answer.text
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=BOUND_SECONDS)
    assert (out, process.returncode) == ("", 0)
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["Stopped."]


def test_why_a_command_ended_is_json_too(tmp_path: Path) -> None:
    ended = subprocess.run(
        [str(SCRIPT), "status", "--fail-if-stale", "5m"],
        env={**os.environ, "SFCDC_LOG_FORMAT": "json", "SFCDC_WAREHOUSE": str(tmp_path / "warehouse")},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    (line,) = map(json.loads, ended.stderr.splitlines())
    assert (ended.returncode, ended.stdout, line["level"], line["error"]) == (1, "", "error", "WarehouseStale")
    assert line["event"].startswith("Stale for longer than 5m: /data/ChangeEvents was never read")
