"""What the demo is at: a bar on a terminal, a line for each step elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """A context manager over so many steps; each begins with `begin`, which ends the one before."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._begun = 0
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task = self._bar.add_task("", total=total)

    def begin(self, what: str) -> None:
        """The next step. `what` is short: it stands beside the bar."""
        self._begun += 1
        self._bar.update(self._task, description=what, completed=self._begun - 1)
        self.tell(f"Step {self._begun} of {self._total}: {what}")

    def tell(self, line: str) -> None:
        """A line of its own, above the bar."""
        self._console.print(line, markup=False, highlight=False)

    def __enter__(self) -> Steps:
        # Redrawn in place, which only a terminal can: elsewhere the lines are all there is.
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()
