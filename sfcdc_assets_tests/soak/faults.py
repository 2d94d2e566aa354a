"""What goes wrong in the hour, in turn. Each returns when it is over; nothing here mends anything."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.soak.deployment import Deployment
from sfcdc_assets_tests.soak.followed_org import FollowedOrg

BLACK_HOLE_SECONDS = 75.0
SUSPECTS = 4
_REQUESTS = 1_000_000


class Faults:
    """Of a deployment and the org that it follows, by what a person would call them."""

    def __init__(self, deployment: Deployment, org: FollowedOrg) -> None:
        self._deployment, self._org = deployment, org
        self.all: Mapping[str, Callable[[], None]] = {
            "power loss: Postgres, code server, run, Spark, daemon, webserver": deployment.lose_power,
            "SIGKILL of the code server's process": self._kill_code_server,
            "SIGTERM to the code server": self._terminate_code_server,
            f"REST answers nothing for {BLACK_HOLE_SECONDS:.0f} s, {SUSPECTS} suspect records": self._black_hole,
            "SIGKILL of the standing Spark's Java": self._kill_spark,
            "docker compose restart": deployment.restart,
            "SIGKILL of the run at work": self._kill_run,
            "SIGKILL of Dagster's daemon": self._kill_daemon,
        }

    def _kill_code_server(self) -> None:
        self._deployment.code.signal_main(signal.SIGKILL)

    def _terminate_code_server(self) -> None:
        self._deployment.code.signal_main(signal.SIGTERM)

    def _kill_daemon(self) -> None:
        self._deployment.containers["daemon"].signal_main(signal.SIGKILL)

    def _kill_spark(self) -> None:
        self._kill("the standing Spark's Java", lambda words: Path(words[0]).name == "java")

    def _kill_run(self) -> None:
        main = self._deployment.code.main_process()
        self._kill("a run", lambda words: any("spawn_main" in word for word in words), parent=main)

    def _kill(self, what: str, is_meant: Callable[[list[str]], bool], parent: int | None = None) -> None:
        """Every process that is meant; one that is not there now is waited for, as the next run is."""

        def meant() -> list[int]:
            found = []
            for pid in self._deployment.code.processes():
                with suppress(OSError, IndexError):
                    if is_meant(command_line(pid)) and (parent is None or parent_of(pid) == parent):
                        found.append(pid)
            return found

        for pid in eventually(meant, f"{what} to be there"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _black_hole(self) -> None:
        self._org.make_suspects(SUSPECTS)
        until = time.monotonic() + BLACK_HOLE_SECONDS
        faults = self._org.server.rest_faults
        faults.arm(RestFault.TIMEOUT, _REQUESTS)
        while time.monotonic() < until:
            time.sleep(0.5)
        faults.disarm(RestFault.TIMEOUT)


def command_line(pid: int) -> list[str]:
    """The words of a process. Raises OSError when it is gone."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").removesuffix("\0").split("\0")


def parent_of(pid: int) -> int:
    """Raises OSError when it is gone."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
