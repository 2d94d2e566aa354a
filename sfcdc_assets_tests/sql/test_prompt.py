"""The prompt: statements over several lines, commands, errors that end nothing, a history over days."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from sfcdc_assets.sql.errors import QueryFailed
from sfcdc_assets.sql.prompt import HELP, converse


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sql_history"


def conversation(
    history: Path, monkeypatch: pytest.MonkeyPatch, *typed: str | type[BaseException]
) -> tuple[list[str], list[str]]:
    """What was answered and what was said beside it, when this was typed and then Ctrl-D."""
    lines: Iterator[str | type[BaseException]] = iter(typed)
    answered: list[str] = []
    said: list[str] = []

    def next_line(prompt: str) -> str:
        line = next(lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    def answer(statement: str) -> None:
        answered.append(statement)
        if "wrong" in statement:
            raise QueryFailed("Parser Error: wrong")
        if "slow" in statement:
            raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", next_line)
    converse(answer, lambda: None, ["account", "contact"], said.append, history)
    return answered, said


def test_a_statement_ends_with_a_semicolon_on_any_line(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, said = conversation(history, monkeypatch, "SELECT 1;", "", "SELECT", "  2", ";")
    assert answered == ["SELECT 1;", "SELECT\n  2\n;"]
    assert said == []


def test_what_fails_or_is_stopped_is_reported_and_the_next_is_answered(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, said = conversation(history, monkeypatch, "wrong;", "slow;", "SELECT", KeyboardInterrupt, "SELECT 3;")
    assert answered == ["wrong;", "slow;", "SELECT 3;"]
    assert said == ["Parser Error: wrong", "Stopped."]


def test_commands_list_the_views_help_and_end(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, said = conversation(history, monkeypatch, ".tables", ".what", ".quit", "SELECT 1;")
    assert answered == []
    assert said == ["account\ncontact", HELP]


def test_the_history_is_the_users_alone(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation(history, monkeypatch, "SELECT 1;")
    assert history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_ends_the_statement_at_work_and_not_the_conversation(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a signal, to a statement that would take for ever and notices nothing by itself."""
    lines = iter(["SELECT count(*) FROM range(100000000000) a, range(1000) b;", "SELECT 42;"])
    answered: list[int] = []
    said: list[str] = []
    with duckdb.connect() as connection:

        def answer(statement: str) -> None:
            if "range" in statement:
                threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            answered.append(connection.execute(statement).fetchall()[0][0])

        def next_line(prompt: str) -> str:
            line = next(lines, None)
            if line is None:
                raise EOFError
            return line

        monkeypatch.setattr("builtins.input", next_line)
        converse(answer, connection.interrupt, [], said.append, history)
    assert (answered, said) == ([42], ["Stopped."])
