"""A code location whose runs do not end by themselves."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg


@dg.op(config_schema=str)
def waits(context: dg.OpExecutionContext) -> None:
    """Says that it is there, and waits, as a run does that follows the stream."""
    Path(context.op_config).touch()
    while True:
        time.sleep(0.1)


@dg.op(config_schema=str)
def is_deaf(context: dg.OpExecutionContext) -> None:
    """The same, in the hands of a library that hears of no signal, with a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"]) as child:
        Path(context.op_config).write_text(str(child.pid))
        child.wait()


@dg.job
def waiting() -> None:
    """One that a request ends."""
    waits()


@dg.job
def deaf() -> None:
    """One that only a kill ends."""
    is_deaf()


defs = dg.Definitions(jobs=[waiting, deaf], executor=dg.in_process_executor)
