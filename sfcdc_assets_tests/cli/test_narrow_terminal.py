"""At 80 columns no name is cut in the middle, in any table or help; help texts are whole sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import typer
import typer.rich_utils  # reads once whether to colour: before a test here says so, or all later ones have colours
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from typer.main import get_command

from sfcdc_assets.cli import status as status_command
from sfcdc_assets.cli import verify as verify_command
from sfcdc_assets.cli.doctor import line_of
from sfcdc_assets.cli.main import COMMANDS, app, function_of
from sfcdc_assets.cli.terminal.fitting_table import Column, fit, print_table
from sfcdc_assets.doctor.finding import Outcome, failed, ok
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.status.status_report import ChannelStatus, EntityStatus, PrivacyStatus, WarehouseStatus
from sfcdc_assets_tests.cli.command import sfcdc

LONG = ["Account", "Invoice_Statement__c", "longprefix15chr__A_Custom_Object_With_A_Name_Of_40_Chars___c"]
CHANNEL = "/data/Sales_And_Service_Cloud__chn"
COLUMNS = 80
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
BORDERS = re.compile("[╭╮╰╯│─┃━┏┓┗┛┡┩└┘├┤┬┴┼┳╇]")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    for name, value in {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def words(shown: str) -> set[str]:
    """What stands in the lines, without colours and borders."""
    return set(BORDERS.sub(" ", ESCAPES.sub("", shown)).split())


def lines(shown: str) -> list[str]:
    return ESCAPES.sub("", shown).splitlines()


def helped(command: str) -> Sequence[str]:
    """The texts of a command's help: what it does, and each of its options and arguments."""
    alone = typer.Typer(add_completion=False)
    alone.command()(function_of(command))
    described = get_command(alone)
    return [described.help or "", *(each.help for each in described.params if not getattr(each, "hidden", False))]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_every_word_of_it_whole(command: str) -> None:
    shown = sfcdc(command, "--help").stdout
    assert max(map(len, lines(shown))) <= COLUMNS
    missing = {word for text in helped(command) for word in text.split()} - words(shown)
    assert not missing
    assert not re.search(r"<\w+>", shown), "types of Python say nothing to a person"


@pytest.mark.usefixtures("narrow")
def test_the_list_of_commands_has_every_word_of_it_whole() -> None:
    shown = sfcdc("--help").stdout
    assert max(map(len, lines(shown))) <= COLUMNS
    assert words(shown) >= {word for name, text in COMMANDS.items() for word in (name, *text.split())}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_texts_are_whole_sentences(command: str) -> None:
    for text in helped(command):
        assert text[0].isupper() or text.startswith("`"), text
        assert text.rstrip().endswith("."), text
    root = get_command(app)
    assert all(str(each.help).endswith(".") for each in root.params)  # type: ignore[attr-defined]


def status_of(names: Sequence[str], *, applied: int) -> WarehouseStatus:
    channels = (ChannelStatus(CHANNEL, applied, applied, landed_at="2026-11-22T05:00:00+00:00"),)
    entities = tuple(
        EntityStatus(name, rows=1_234_567, deleted=12_345, suspects=123, channel=CHANNEL, applied=applied)
        for name in names
    )
    warehouse = "/home/somebody/a/rather/deep/folder/of/which/the/name/is/longer/than/the/terminal/is/wide"
    privacy = PrivacyStatus(MappingProxyType({}))
    return WarehouseStatus(warehouse, "00D000000000001AAA", channels, entities, privacy, {}, 0, ())


@pytest.mark.usefixtures("narrow")
def test_status_shows_every_name_whole(capsys: pytest.CaptureFixture[str]) -> None:
    found = status_of(LONG, applied=1_234_567)
    status_command.show(found)
    shown = capsys.readouterr().out
    assert words(shown) >= {*LONG, CHANNEL, "1,234,567", f"{found.warehouse},", f"{found.organization}.", "waiting"}
    assert "Not shown at this width: channel, deleted, applied" in shown
    assert "`sfcdc status --json` has all." in " ".join(shown.split())


@pytest.mark.usefixtures("narrow")
def test_verify_shows_every_name_whole(capsys: pytest.CaptureFixture[str]) -> None:
    report = VerifyReport("", CHANNEL, 7, 1_234_567, 1_234_567, 1_234_567, values_compared=98_765_432, calls=1234)
    verify_command.show([replace(report, entity=name) for name in LONG[:2]])
    shown = capsys.readouterr().out
    assert words(shown) >= {*LONG[:2], "1,234,567", "different"}
    assert "Not shown at this width: again, changed meanwhile, suspect, values" in shown


def test_verify_tells_of_one_record_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    report = VerifyReport("Lead", CHANNEL, 7, left=frozenset({"00Q1"}), suspects=1, broken_histories=["00Q2"])
    verify_command.show([report])
    shown = " ".join(capsys.readouterr().out.split())
    assert "Lead: 1 record could not be compared: 0 changed each time, 1 suspect, 0 unreadable." in shown
    assert "Lead: the versions of 1 record do not follow one another (00Q2). `sfcdc rebuild --entity Lead`" in shown


def test_doctor_shows_every_name_whole() -> None:
    finding = failed(f"stream of {CHANNEL}", "https://mycompany--uat.sandbox.my.salesforce.com is silent.", "Wait.")
    shown = line_of(finding, COLUMNS).plain
    assert words(shown) >= {f"{CHANNEL}:", "https://mycompany--uat.sandbox.my.salesforce.com", "failed"}
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert all(line.startswith(" ") for line in shown.splitlines()[1:])
    assert line_of(ok("Java", "version 21"), COLUMNS).plain == f"{Outcome.OK:<13}Java: version 21"


def test_what_is_not_a_terminal_gets_every_column_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status_command.show(status_of(LONG, applied=1_234_567))
    shown = capsys.readouterr().out
    assert "Not shown" not in shown
    row = next(line for line in shown.splitlines() if LONG[2] in line)
    assert all(part in row for part in (CHANNEL.removeprefix("/data/"), "12,345", "events waiting"))


WORDS = st.text("abcdef_", min_size=1, max_size=30)
CELLS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@given(st.data(), st.integers(10, 200), st.integers(1, 6))
def test_a_table_fits_or_leaves_out_or_goes_over_the_edge_and_cuts_no_word(
    data: st.DataObject, width: int, count: int
) -> None:
    columns = [Column(data.draw(CELLS), data.draw(st.integers(0, 4))) for _ in range(count)]
    rows = data.draw(st.lists(st.tuples(*[CELLS] * count), max_size=3))
    shown, widths = fit(columns, rows, width)
    for place, given_width in zip(shown, widths, strict=True):
        cells = [columns[place].heading, *(row[place] for row in rows)]
        assert given_width >= max(len(word) for cell in cells for word in cell.split())
    assert {place for place in range(count) if columns[place].rank == 0} <= set(shown)
    is_too_wide = sum(widths) + 3 * len(widths) + 1 > width
    assert not (is_too_wide and any(columns[place].rank for place in shown))


@pytest.mark.usefixtures("narrow")
def test_long_values_are_folded_where_names_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (Column("field"), Column("value", folds=True), Column("by", 1))
    value = "x" * 150
    print_table(None, columns, [("Description", value, Text("00500000000000AAAA"))], left_out="")
    shown = capsys.readouterr().out
    assert words(shown) >= {"Description", "00500000000000AAAA"}
    assert ESCAPES.sub("", shown).count("x") == len(value)
    assert max(map(len, lines(shown))) <= COLUMNS


def test_a_path_keeps_its_place(tmp_path: Path) -> None:
    """The warehouse is said on one line, however long its name is."""
    assert f"Warehouse: {tmp_path}" in sfcdc_status(tmp_path)


def sfcdc_status(folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFCDC_WAREHOUSE", str(folder))
        return sfcdc("status").stdout
