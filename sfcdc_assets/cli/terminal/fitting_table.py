"""Tables for a terminal of any width: no word of them, so no name, is cut in the middle.

Cells wrap between words. Where even that does not fit, columns are left out, the least needed first, and a line below
says which. What is not a terminal has no width, so there nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from sfcdc_assets.cli.terminal.output import Screen
from sfcdc_assets.runtime.foreign_text import terminal_text

FOLDS_AT = 20
"""Least width of a column whose long words may be folded: values of fields have no names to keep whole."""


@dataclass(frozen=True)
class Column:
    """Its heading; `rank` says what is left out first where the table is too wide: the highest, and never a 0."""

    heading: str
    rank: int = 0
    folds: bool = False


Row = Sequence[str | Text]


def print_table(title: str | None, columns: Sequence[Column], rows: Sequence[Row], *, left_out: str) -> None:
    """Print it on standard output. `left_out`: where the columns are found that do not fit."""
    console = Screen()
    shown, widths = fit(columns, rows, console.width if console.is_terminal else None)
    table = Table(title=title, title_justify="left")
    for place, width in zip(shown, widths, strict=True):
        table.add_column(columns[place].heading, width=width, overflow="fold")
    for row in rows:
        table.add_row(*(_text(row[place]) for place in shown))
    # One that cannot be made narrow enough goes over the edge; the terminal breaks its lines, and nothing is lost.
    Screen(width=max(console.width, _total(widths))).print(table)
    missing = [column.heading for place, column in enumerate(columns) if place not in shown]
    if missing:
        console.print(f"Not shown at this width: {', '.join(missing)}. {left_out}", highlight=False)


def fit(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> tuple[list[int], list[int]]:
    """Return the places of the columns that are shown, and their widths; `width` None: all, and nothing wraps."""
    natural = [_widest(_cells(columns, rows, place), str.splitlines) for place in range(len(columns))]
    least = [_least(column, _cells(columns, rows, place)) for place, column in enumerate(columns)]
    shown = list(range(len(columns)))
    if width is None:
        return shown, natural
    while _total([least[place] for place in shown]) > width:
        droppable = [place for place in shown if columns[place].rank]
        if not droppable:
            return shown, [least[place] for place in shown]
        shown.remove(max(droppable, key=lambda place: columns[place].rank))
    widths = {place: natural[place] for place in shown}
    while _total(list(widths.values())) > width:
        widest = max(shown, key=lambda place: (widths[place] - least[place], widths[place]))
        widths[widest] -= 1
    return shown, [widths[place] for place in shown]


def _least(column: Column, cells: Sequence[str]) -> int:
    longest = _widest(cells, str.split)
    return min(longest, max(FOLDS_AT, _widest([column.heading], str.split))) if column.folds else longest


def _cells(columns: Sequence[Column], rows: Sequence[Row], place: int) -> list[str]:
    return [columns[place].heading, *(_text(row[place]).plain for row in rows)]


def _widest(cells: Sequence[str], parts: Callable[[str], list[str]]) -> int:
    return max((cell_len(part) for cell in cells for part in parts(cell)), default=0)


def _total(widths: Sequence[int]) -> int:
    """Return the total width, with the borders and the space beside each column."""
    return sum(widths) + 3 * len(widths) + 1


def _text(cell: str | Text) -> Text:
    """Make a text: what comes from tables is not markup."""
    return cell if isinstance(cell, Text) else Text(terminal_text(cell))
