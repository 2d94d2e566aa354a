"""Ctrl-C and SIGTERM end the command within seconds: one sentence, exit code 130 or 143, no process left behind.

No exception is raised for them. Dagster, PySpark, py4j, gRPC and the Rust code under deltalake have handlers, retries
and catches of their own, and what one of them swallows goes on. A process that is killed at any moment leaves the
tables whole (guarantee 2), so this one says its sentence and ends. Long work runs in a thread of its own: libraries
leave signal handlers alone there, and the main thread, where Python runs handlers, only waits. The process then becomes
another program, `children`, which ends what was started and gives the exit code.

Imports nothing that takes time: the handlers are there before the rest of the package is imported.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
LAST_WORDS_SECONDS = 2.0
"""How long `before_stopping` may take, all together."""

_before: list[Callable[[], None]] = []
_drawings: list[int] = []
"""Descriptors that somebody draws on."""
_SHOW_CURSOR = b"\x1b[?25h\n"
"""What a terminal is sent where a drawing is given up: the cursor is seen again, and below it."""
_stderr = 2
"""Where the sentence goes: Dagster takes descriptor 2 away while a step runs."""
_drawn_on: TextIO | None = None
"""Where progress is written instead of being drawn."""
_form: Callable[[str], str] = "sfcdc: {}".format
"""How the sentence is written."""
_at_work = threading.Event()
"""Set once the signals end this process; not in a process of tests that calls a command as a function."""


def stop_on_signals() -> None:
    """Let SIGINT and SIGTERM end this process from now on. For the main thread, once, first of all."""
    global _stderr  # noqa: PLW0603 - there is one standard error
    _stderr = os.dup(2)
    for number in SIGNALS:
        signal.signal(number, _stop)
    _at_work.set()


def draw_on(lines: TextIO) -> None:
    """Have progress written there from now on, where nothing can be redrawn."""
    global _drawn_on  # noqa: PLW0603 - there is one standard error
    _drawn_on = lines


def say_by(form: Callable[[str], str]) -> None:
    """Have the sentence of a stop written in this form from now on."""
    global _form  # noqa: PLW0603 - there is one standard error
    _form = form


def stops_at_once(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command whose work may be long or in the hands of libraries: see the module."""

    @functools.wraps(command)
    def stoppable(*arguments: Any, **options: Any) -> None:
        work = functools.partial(command, *arguments, **options)
        if _at_work.is_set():
            _in_a_thread(work)
        else:
            work()

    return stoppable


@contextlib.contextmanager
def before_stopping(last_words: Callable[[], None]) -> Iterator[None]:
    """Have `last_words` done before a signal ends the process, while entered, if that takes no longer than
    `LAST_WORDS_SECONDS`."""
    _before.append(last_words)
    try:
        yield
    finally:
        _before.remove(last_words)


@contextlib.contextmanager
def drawing() -> Iterator[TextIO]:
    """Yield standard error, to draw progress on; a descriptor of its own, since Dagster takes descriptor 2 away while a
    step runs. A signal ends the drawing first, so that it does not draw over the sentence."""
    if _drawn_on is not None:
        yield _drawn_on
        return
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # not a file: a test's
        yield sys.stderr
        return
    with os.fdopen(descriptor, "w") as terminal:
        _drawings.append(descriptor)
        try:
            yield terminal
        finally:
            _drawings.remove(descriptor)


def _in_a_thread(work: Callable[[], None]) -> None:
    """Do the work beside the main thread; raises what it raises."""
    raised: list[BaseException] = []
    reader, writer = socket.socketpair()
    reader.settimeout(0)
    writer.settimeout(0)

    def run() -> None:
        # Threads and processes that are started from here inherit it: a terminal's Ctrl-C is for the main thread alone,
        # and none of them tells of it in its own way.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            raised.append(error)
        finally:
            with contextlib.suppress(BlockingIOError):
                writer.send(b"\0")

    # The kernel may give a signal to any thread; the number on the descriptor wakes this one, which runs the handler.
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=run, name="command", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            select.select([reader], [], [], 1.0)
            with contextlib.suppress(BlockingIOError):
                reader.recv(4096)
            thread.join(0.01)
    finally:
        signal.set_wakeup_fd(before)
        reader.close()
        writer.close()
    if raised:
        raise raised[0]


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for each_drawing in _drawings:
        os.dup2(nowhere, each_drawing)
    with contextlib.suppress(OSError):
        if _drawings and os.isatty(_stderr):
            os.write(_stderr, _SHOW_CURSOR)
        by = SIGNALS[signal.Signals(number)]
        said = f"stopped by {by}. The tables are whole; `sfcdc sync` continues from here."
        os.write(_stderr, f"{_form(said)}\n".encode())
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the work goes on, and is not to tell of it
    _have_last_words()
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    # With this the work is gone, before it can see that its children are; they are still ours.
    end = Path(__file__).with_name("children.py")
    os.execv(sys.executable, [sys.executable, "-I", str(end), str(128 + number)])


def _have_last_words() -> None:
    def say() -> None:
        for last_words in reversed(_before):
            with contextlib.suppress(Exception):
                last_words()

    thread = threading.Thread(target=say, name="last words", daemon=True)
    thread.start()
    thread.join(LAST_WORDS_SECONDS)
