"""`sfcdc sql` without a statement, on a terminal: statements are typed, ended by a semicolon, and answered.

The standard library's readline has what a prompt needs: a line to edit, a history over days, names that complete.
"""

from __future__ import annotations

import contextlib
import readline
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from sfcdc_assets.runtime.errors import SfcdcError

PROMPT, CONTINUED = "sfcdc> ", "   ...> "
HELP = (
    "End a statement with a semicolon. .tables lists the views, .help shows this, .quit or Ctrl-D ends; Ctrl-C drops "
    "the line or the statement at work."
)
_LINES_KEPT = 2_000
_LOOK_SECONDS = 0.1
"""How often the end of a statement is looked for; one that is quicker is noticed at once."""


def converse(
    answer: Callable[[str], None],
    interrupt: Callable[[], None],
    names: Sequence[str],
    say: Callable[[str], None],
    history: Path,
) -> None:
    """Read statements until the end of input; `answer` runs one and writes its result, `interrupt` has it end early,
    `say` writes a line beside it. What was typed is kept in the file `history`.

    A statement that fails is reported and ends nothing.
    """
    with _history(history), _completing(names), _interruptible():
        while (statement := _statement()) is not None:
            word = statement.strip().rstrip(";").lower()
            if word in (".quit", ".exit", "quit", "exit", "\\q"):
                return
            if word == ".tables":
                say("\n".join(sorted(names)))
            elif word.startswith("."):
                say(HELP)
            elif word:
                try:
                    _beside(partial(answer, statement), interrupt)
                except SfcdcError as error:
                    say(str(error))
                except KeyboardInterrupt:
                    say("Stopped.")


def _beside(work: Callable[[], None], interrupt: Callable[[], None]) -> None:
    """Work in a thread, and raise what it raises: Python hears of a signal only between its own steps, and a statement
    may be one step of an hour."""
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            raised.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="statement", daemon=True).start()
    try:
        # Not by `join`: one that a signal interrupts may take the thread for ended.
        while not done.wait(_LOOK_SECONDS):
            pass
    except KeyboardInterrupt:
        interrupt()
        done.wait()
        raise
    if raised:
        raise raised[0]


def _statement() -> str | None:
    """Return what was typed up to a semicolon, or a command; None at the end of input."""
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUED if lines else PROMPT)
        except EOFError:
            return None
        except KeyboardInterrupt:
            print()
            lines.clear()
            continue
        lines.append(line)
        typed = "\n".join(lines).strip()
        if not typed or typed.endswith(";") or typed.startswith((".", "\\")) or typed.lower() in ("quit", "exit"):
            return typed


@contextlib.contextmanager
def _history(file: Path) -> Iterator[None]:
    """Lines of earlier days, and these for later ones. Who may not write them there goes without."""
    readline.clear_history()
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_LINES_KEPT)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(file)
            file.chmod(0o600)


@contextlib.contextmanager
def _completing(names: Sequence[str]) -> Iterator[None]:
    before = readline.get_completer()

    def completed(text: str, state: int) -> str | None:
        found = [name for name in names if name.startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer(completed)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C stops what is typed or at work; elsewhere it ends the command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
