"""No text of an org commands the terminal or a spreadsheet, whichever way out it takes."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import sfcdc_assets.cli
from sfcdc_assets.cli.terminal.fitting_table import Column, print_table
from sfcdc_assets.cli.terminal.output import Screen, say, show_exceptions_as_text
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.foreign_text import json_text, spreadsheet_text, terminal_text
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.sql.results import Format, write

pytestmark = pytest.mark.slow

duckdb = pytest.importorskip("duckdb")

TITLE, CLIPBOARD, CLEAR = "\x1b]0;owned\x07", "\x1b]52;c;ZWNobyBvd25lZA==\x07", "\x1b[2J\x1b[H"
HOSTILE = st.lists(
    st.one_of(
        st.sampled_from([TITLE, CLIPBOARD, CLEAR, "\x9b31m", "\r", "\x08", "\x7f", "\u202e", "\u2066", "[red]x[/red]"]),
        st.sampled_from(
            ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", ":smile:", "\ud83d", "\u2028", "\x85"]
        ),
        st.text(max_size=4),
    ),
    max_size=5,
).map("".join)
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
CLI = Path(sfcdc_assets.cli.__file__).parent
STYLED = {"emulator_events.py", "emulator_fault.py", "emulator_scenario.py", "output.py"}
"""They colour what the emulated org on this machine says, after `printable`; and the way out itself."""


class OnATerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def result(text: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect().execute("select ? as value, 7 as number", [text.encode(errors="replace").decode()])


@given(HOSTILE)
def test_a_line_a_table_a_screen_and_an_error_show_what_a_terminal_would_obey(text: str) -> None:
    app = typer.Typer()
    columns, table = [Column("a heading", folds=True)], Table("a heading")
    table.add_row(text)

    @app.command()
    def shown() -> None:
        say(text)
        say(text, err=True)
        print_table(text, columns, [[text], [Text(text)]], left_out="nowhere")
        screen = Screen()
        screen.print(text)
        screen.print(Text(text), table)
        say(str(SfcdcError(text)))
        say(str(RequestRefused("a query", 400, text, text)))

    done = CliRunner().invoke(app)
    assert done.exit_code == 0, done.exception
    assert not COMMANDS.search(done.stdout + done.stderr)


@given(HOSTILE)
def test_an_error_commands_no_terminal_whoever_prints_it(text: str) -> None:
    assert not COMMANDS.search(str(SfcdcError(text)))
    assert not COMMANDS.search(str(RequestRefused("a query", 400, "CODE", text)))


@given(HOSTILE, st.sampled_from(list(Format)), st.sampled_from([None, 30]))
def test_a_result_on_a_terminal_commands_nothing(text: str, form: Format, width: int | None) -> None:
    out = OnATerminal()
    write(result(text), form, out, width)
    assert not COMMANDS.search(out.getvalue())


@given(HOSTILE)
def test_csv_and_json_in_a_file_have_the_values_as_they_are(text: str) -> None:
    value = text.encode(errors="replace").decode()
    for form in (Format.CSV, Format.JSON):
        out = io.StringIO()
        write(result(text), form, out, None)
        if form is Format.JSON:
            assert json.loads(out.getvalue()) == [{"value": value, "number": 7}]
        else:
            assert list(csv.reader(io.StringIO(out.getvalue(), newline="")))[1] == [value, "7"]


@given(HOSTILE)
def test_no_text_in_csv_for_a_spreadsheet_is_a_formula_and_numbers_stay_numbers(text: str) -> None:
    out = io.StringIO()
    write(result(text), Format.SPREADSHEET, out, None)
    value, number = list(csv.reader(io.StringIO(out.getvalue(), newline="")))[1]
    assert not value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert value.removeprefix("'") == text.encode(errors="replace").decode().removeprefix("'")
    assert number == "7"
    assert spreadsheet_text("-1") == "'-1"


@given(HOSTILE)
def test_what_is_shown_in_place_of_a_command_says_which_it_was(text: str) -> None:
    assert terminal_text(terminal_text(text)) == terminal_text(text)
    assert json.loads(json_text(json.dumps(text, ensure_ascii=False))) == text
    assert terminal_text(TITLE) == "\\x1b]0;owned\\x07"


def test_an_unexpected_error_is_printed_without_its_commands(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.excepthook", None)
    show_exceptions_as_text()
    sys.excepthook(ValueError, ValueError(f"the org said {CLIPBOARD}"), None)
    assert capsys.readouterr().err == "ValueError: the org said \\x1b]52;c;ZWNobyBvd25lZA==\\x07\n"


@pytest.mark.parametrize("name", sorted({module.name for module in CLI.glob("*.py")} - STYLED))
def test_no_command_writes_past_the_way_out(name: str) -> None:
    writers = {"typer.echo", "typer.secho", "click.echo", "print", "Console", "sys.stdout.write"}
    past = [
        ast.unparse(node.func)
        for node in ast.walk(ast.parse((CLI / name).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in writers
    ]
    assert past == [], "use say or Screen of sfcdc_assets.cli.terminal.output"
