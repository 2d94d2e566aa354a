"""The end of a code server on SIGTERM, within ten seconds: what is on its way is landed, and its runs end.

Dagster's own server waits until its runs are over, which follow the stream for ten minutes, and is then killed in the
middle of things. Here runs are told to end, as the UI's "Terminate" does: one that waits for more ends at once, one
that applies a batch leaves it to the next run, as the tables move by whole batches. What has not ended by itself is
killed, and marked as cancelled, so that whoever comes next does not wait for it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import dagster as dg
from dagster._grpc.server import DagsterApiServer

from sfcdc_assets.cli.terminal.children import descendants, end_children
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS

log = logging.getLogger("dagster.code_server")

RUNS_SECONDS = 4.0
"""How long runs may take to end by themselves."""
LANDING_SECONDS = 3.0
"""How long the landing of what is on its way may take."""
IN_ALL_SECONDS = 9.0
"""Docker kills what is there ten seconds after its SIGTERM."""
LOOK_SECONDS = 0.05


class EndingServer(DagsterApiServer):
    """Dagster's, but for its end: `cleanup` is called when the process was interrupted, and no call is taken then."""

    def cleanup(self) -> None:
        """End the runs of this server, land what is on its way, and end the process."""
        threading.Thread(target=_end_at_last, name="end at last", daemon=True).start()
        self._shutdown_once_executions_finish_event.set()  # no run begins any more
        landing = threading.Thread(target=_land, name="last landing", daemon=True)
        landing.start()
        self._end_runs()
        landing.join(LANDING_SECONDS)
        # Threads of ticks that are at work would keep the interpreter from ending.
        _end()

    def _end_runs(self) -> None:
        with self._execution_lock:
            at_work = dict(self._executions)
            for run_id, (_, ref) in at_work.items():
                with suppress(Exception), dg.DagsterInstance.from_ref(ref) as instance:
                    # Otherwise the run would say that it failed.
                    if (run := instance.get_run_by_id(run_id)) is not None and not run.is_finished:
                        instance.report_run_canceling(run, "The code server ends.")
                self._termination_events[run_id].set()
            # Dagster's own look at them would call failed what is ended here.
            self._executions.clear()
            self._termination_events.clear()
        until = time.monotonic() + RUNS_SECONDS
        while any(process.is_alive() for process, _ in at_work.values()) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        for run_id, (process, ref) in at_work.items():
            for pid in (process.pid, *descendants(process.pid or 0)) if process.is_alive() else ():
                with suppress(ProcessLookupError):
                    os.kill(pid or 0, signal.SIGKILL)
            with suppress(Exception), dg.DagsterInstance.from_ref(ref) as instance:
                if (run := instance.get_run_by_id(run_id)) is not None and not run.is_finished:
                    instance.report_run_canceled(run, "The run ended with its code server; the next one goes on.")
        log.info("%d runs were ended with the code server", len(at_work))


def _land() -> None:
    try:
        OPEN_CHANNELS.close(lands=True)
    except Exception as error:  # noqa: BLE001 - it comes again to whoever reads next
        log.warning("What was on its way could not be landed: %s", error)


def _end_at_last() -> None:
    time.sleep(IN_ALL_SECONDS)
    log.warning("The code server is ended after %.0f s", IN_ALL_SECONDS)
    _end()


def _end() -> None:
    end_children(grace=1.0)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)
