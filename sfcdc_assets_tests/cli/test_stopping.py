"""A command that draws on a terminal when it is stopped: the sentence stands below the drawing, with a cursor."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys

import pytest

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS

PROGRAM = """
import threading
from sfcdc_assets.cli.terminal.stopping import drawing, stop_on_signals, stops_at_once

def work():
    with drawing() as terminal:
        has_drawn = threading.Event()
        def draw():
            while True:
                terminal.write("drawn ")
                terminal.flush()
                has_drawn.set()
                threading.Event().wait(0.001)
        threading.Thread(target=draw, daemon=True).start()
        has_drawn.wait()
        print("drawing", flush=True)
        threading.Event().wait()

stop_on_signals()
stops_at_once(work)()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no terminals of this kind")
def test_a_signal_ends_the_drawing_before_the_sentence() -> None:
    terminal, of_child = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, stderr=of_child, stdin=subprocess.DEVNULL
    )
    os.close(of_child)
    assert child.stdout is not None
    assert child.stdout.readline() == b"drawing\n"
    child.send_signal(signal.SIGINT)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's other side is closed
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    assert child.wait(BOUND_SECONDS) == 128 + signal.SIGINT
    drawn, _, said = shown.partition(b"\x1b[?25h")
    assert b"drawn" in drawn
    assert said.strip().startswith(b"sfcdc: stopped by Ctrl-C.")
    assert b"drawn" not in said
