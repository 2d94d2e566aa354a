"""What `sfcdc dev` does once all is prepared: keep Dagster, and the Spark that its runs share, until interrupted.

To open an org and a warehouse takes libraries of 120 MB, which nobody needs afterwards and no process gives back. So
`become` puts this program in the place of the one that did it: the same process, on the same terminal, with the lock of
its folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sfcdc_assets.cli.local_dagster.dagster_ui import DagsterUi
from sfcdc_assets.cli.terminal.interruption import SIGNALS, Interruption
from sfcdc_assets.cli.terminal.output import log_as_json, say, say_error, show_exceptions_as_text
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.spark.process import SparkProcess


class DagsterEnded(SfcdcError):
    """Dagster ended by itself."""

    def __init__(self) -> None:
        super().__init__("Dagster ended by itself; the lines above say why. What was landed and applied is kept.")


@dataclass(frozen=True)
class KeptDagster:
    """`directory`: what `sfcdc dev` keeps everything in; `home`: Dagster's, with the file `workspace`. `keeps_spark`:
    whether its runs share one of ours. `org`: the one that logs name, where it has a name."""

    directory: str
    workspace: str
    home: str
    port: int
    log_format: str
    keeps_spark: bool
    org: str | None

    def keep(self, environment: Mapping[str, str], interruption: Interruption) -> None:
        """Start both with this environment, say when the UI is there, and end both at the interruption; a Spark that
        ended is started again. Raises `DagsterEnded`, and `UnguardedUi`."""
        with contextlib.ExitStack() as stack:
            home = Path(self.home)
            spark = stack.enter_context(SparkProcess(environment, home)) if self.keeps_spark else None
            ui = stack.enter_context(DagsterUi(Path(self.workspace), home, self.port, environment, self.log_format))
            say("Dagster is starting ...", err=True)
            announced = False
            while not interruption.wait(1.0):
                if not ui.running:
                    raise DagsterEnded
                if spark is not None:
                    spark.look()
                if not announced and ui.answers():
                    say(f"The Dagster UI is on {ui.url} (Ctrl+C ends it).", err=True)
                    announced = True
        self._say_stopped()

    def become(self, environment: Mapping[str, str], interruption: Interruption) -> None:
        """Do it as another program in this process; returns only if the interruption came before. One that comes
        meanwhile is that program's."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        if interruption.wait(0):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            self._say_stopped()
            return
        sys.stdout.flush()
        sys.stderr.flush()
        # -P: modules of the folder that a person is in are not the program's.
        os.execve(sys.executable, [sys.executable, "-P", "-m", __name__, json.dumps(asdict(self))], dict(environment))

    def _say_stopped(self) -> None:
        say(f"Stopped. Everything is kept in {self.directory}.", err=True)


def main() -> None:
    """Keep what the one argument says, with the environment of this process."""
    show_exceptions_as_text()
    kept = KeptDagster(**json.loads(sys.argv[1]))
    if kept.log_format == "json":
        log_as_json(kept.org)
    with Interruption() as interruption:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        try:
            kept.keep(os.environ, interruption)
        except SfcdcError as error:
            say_error(error)
            sys.exit(1)


if __name__ == "__main__":
    main()
