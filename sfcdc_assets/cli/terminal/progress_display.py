"""Progress on standard error: redrawn in place on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sfcdc_assets.cli.syncing.sync_progress import waiting_line
from sfcdc_assets.cli.terminal.output import Screen
from sfcdc_assets.cli.terminal.stopping import drawing
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import Fact, StreamAwaited, observing

LINE_SECONDS = 10.0
"""Between two lines where nothing can be redrawn."""


class Progress(Protocol):
    """What is drawn: an observer that puts what it knows into words."""

    def __call__(self, fact: Fact) -> None:
        """Take note of a fact."""

    def lines(self) -> list[str]:
        """Write the progress for a terminal."""

    def line(self) -> str:
        """Write the progress for a log."""


class ProgressDisplay:
    """A context manager: while entered, `progress` observes and is shown. `tell` prints a line of its own.

    On a terminal the drawing is gone at the end; the lines stay.
    """

    def __init__(self, progress: Progress, console: Console | None = None) -> None:
        self._progress = progress
        self._console = console
        self._monotonic = clock.current().monotonic
        self._line_at = self._monotonic() + LINE_SECONDS
        self._stack = ExitStack()

    def __enter__(self) -> ProgressDisplay:
        with ExitStack() as stack:
            if self._console is None:
                self._console = Screen(file=stack.enter_context(drawing()))
            if self._console.is_terminal:
                live = Live(get_renderable=self._drawn, console=self._console, transient=True, redirect_stdout=False)
                stack.enter_context(live)
            stack.enter_context(observing(self._observe))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def tell(self, line: str) -> None:
        """Print a line of its own, above what is drawn."""
        assert self._console is not None
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _observe(self, fact: Fact) -> None:
        self._progress(fact)
        assert self._console is not None
        if self._console.is_terminal:
            return
        if isinstance(fact, StreamAwaited):
            # Nothing else is reported while it lasts.
            if line := waiting_line(fact):
                self.tell(line)
        elif self._monotonic() >= self._line_at:
            self._line_at = self._monotonic() + LINE_SECONDS
            self.tell(self._progress.line())

    def _drawn(self) -> Text:
        return Text("\n".join(self._progress.lines()))
