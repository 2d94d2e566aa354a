"""What commands write: the one way out, on which no text of an org commands the terminal.

A record's value, a name or a refusal of the org may hold escape sequences that set the window's title, fill the
clipboard or hide a line. Here they are shown instead (`terminal_text`). A test holds that no command writes past it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from types import TracebackType

import typer
from rich.console import Console
from rich.segment import Segment

from sfcdc_assets.runtime.foreign_text import terminal_text


def say(line: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line on standard output, or on standard error."""
    typer.echo(terminal_text(line), err=err, nl=nl)


class Screen(Console):
    """A console of Rich that takes no markup from texts, and whose texts command nothing. Its own colours and movements
    are segments of their own."""

    def __init__(self, **options: object) -> None:
        super().__init__(**{"markup": False, **options})  # type: ignore[arg-type]

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            each if each.control else each._replace(text=terminal_text(each.text)) for each in buffer
        )


def show_exceptions_as_text() -> None:
    """Have the traceback of an unexpected error printed so, too: its message may quote anything."""
    sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(terminal_text("".join(traceback.format_exception(kind, error, trace))))
