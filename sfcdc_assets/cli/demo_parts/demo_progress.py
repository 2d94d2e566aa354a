"""What the demo is at: a bar on a terminal, a line for each step elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sfcdc_assets.cli.syncing.sync_progress import waiting_line
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import BatchApplied, Fact, StreamAwaited


class Steps:
    """A context manager over so many steps; each begins with `begin`, which ends the one before."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._begun = 0
        self._up_at: float | None = None
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task = self._bar.add_task("", total=total)

    def begin(self, what: str) -> None:
        """Begin the next step. `what` is short: it stands beside the bar."""
        self._begun += 1
        self._bar.update(self._task, description=what, completed=self._begun - 1)
        self.tell(f"Step {self._begun} of {self._total}: {what}")

    def tell(self, line: str) -> None:
        """Print a line of its own, above the bar."""
        self._console.print(line, markup=False, highlight=False)

    def org_is_up(self, url: str) -> None:
        """Say so; from now on the first table is waited for."""
        self._up_at = clock.current().monotonic()
        self.tell(f"The org is at {url}.")

    def observe(self, fact: Fact) -> None:
        """Say what is waited for, and when the first table is there."""
        if isinstance(fact, StreamAwaited) and (line := waiting_line(fact)):
            self.tell(line)
        if isinstance(fact, BatchApplied) and self._up_at is not None:
            seconds, self._up_at = clock.current().monotonic() - self._up_at, None
            self.tell(f"First table: {fact.entity}, {seconds:.0f} s after the org was up.")

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
