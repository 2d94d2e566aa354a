"""What commands write: the one way out, on which no text of an org commands the terminal.

A record's value, a name or a refusal of the org may hold escape sequences that set the window's title, fill the
clipboard or hide a line. Here they are shown instead (`terminal_text`). A test holds that no command writes past it.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType

import typer
from rich.console import Console
from rich.segment import Segment

from sfcdc_assets.cli.terminal import stopping
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.foreign_text import terminal_text
from sfcdc_assets.runtime.json_logs import write_logs_as_json

log = logging.getLogger("sfcdc_assets.cli")


def say(line: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line on standard output, or on standard error; there it is a log's line where logs are JSON."""
    if err and _Form.is_json:
        if line.strip():
            log.info(line)
        return
    typer.echo(terminal_text(line), err=err, nl=nl)


def say_error(error: SfcdcError) -> None:
    """Print what ended the command, on standard error."""
    if _Form.is_json:
        log.error(str(error), extra={"error": type(error).__name__})
    else:
        say(f"sfcdc: {error}", err=True)


class _Form:
    is_json = False


class _LogLines(io.StringIO):
    """What is drawn, as lines of the log."""

    _begun = ""

    def write(self, text: str) -> int:
        """Log the lines that end in the text."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            log.info(line.rstrip())
        return len(text)


def log_as_json(org: str | None) -> None:
    """Write all that goes to standard error as JSON from now on: logs, progress, and why a command ended."""
    _Form.is_json = True
    write_logs_as_json(org=org)
    log.setLevel(logging.INFO)
    sys.excepthook = _log_exception
    stopping.draw_on(_LogLines())
    stopping.say_by(_stopped)


def _stopped(sentence: str) -> str:
    moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": sentence, "logger": log.name, "level": "warning", "timestamp": moment})


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


def _log_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("An unexpected error ended the command.", exc_info=(kind, error, trace))


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(terminal_text("".join(traceback.format_exception(kind, error, trace))))
