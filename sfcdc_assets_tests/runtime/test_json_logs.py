"""Logs as JSON: a line an object, of the form that Dagster's have."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from dagster._cli import api

from sfcdc_assets.code_server.__main__ import main as code_server
from sfcdc_assets.runtime.json_logs import OURS, write_logs_as_json
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own

__all__ = ["no_settings_but_the_tests_own"]

LOG = logging.getLogger("sfcdc_assets.landing.pending")


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    loggers = (logging.getLogger(), logging.getLogger(OURS))
    before = [(each, each.handlers, each.propagate) for each in loggers]
    yield
    for logger, handlers, propagates in before:
        logger.handlers, logger.propagate = handlers, propagates


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.isascii()
    return [json.loads(line) for line in shown.err.splitlines()]


def test_each_line_is_an_object_with_level_logger_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    write_logs_as_json(of=OURS, org="emea")
    LOG.warning("%s: it cannot be noted: %s", "Account", "Müller\n\x1b[31m\u202e")
    (line,) = lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "Account: it cannot be noted: Müller\n\x1b[31m\u202e",
        "level": "warning",
        "logger": LOG.name,
        "org": "emea",
    }


def test_an_exception_is_in_the_line_of_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    write_logs_as_json(of=OURS)
    try:
        raise ValueError("no number")
    except ValueError:
        LOG.exception("It failed.")
    (line,) = lines(capsys)
    assert line["exception"].splitlines()[-1] == "ValueError: no number"


def test_the_loggers_of_others_are_left_alone_and_twice_is_once(capsys: pytest.CaptureFixture[str]) -> None:
    others = list(logging.getLogger().handlers)
    write_logs_as_json(of=OURS)
    write_logs_as_json(of=OURS)
    assert logging.getLogger().handlers == others
    LOG.warning("once")
    assert [line["event"] for line in lines(capsys)] == ["once"]


@pytest.mark.parametrize(("setting", "added"), [("json", ["--log-format", "json"]), ("text", [])])
def test_the_code_server_asks_dagster_for_the_same_form(
    monkeypatch: pytest.MonkeyPatch, setting: str, added: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(api, "grpc_command", asked.extend)
    monkeypatch.setattr(sys, "argv", ["code_server", "--port", "4000"])
    monkeypatch.setenv("SFCDC_LOG_FORMAT", setting)
    code_server()
    assert asked[-2 - len(added) :] == [*added, "--port", "4000"]
