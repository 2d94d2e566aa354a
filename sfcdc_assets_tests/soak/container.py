"""A service as a container runs it, without Docker: process ids of its own, and the policy `restart: unless-stopped`.

When its command ends, all that it had started ends with it (a PID namespace of Linux), and it is started again after a
pause of 0.1 s, which doubles up to a minute and begins again once the command has run for ten seconds: Docker's rule
(https://docs.docker.com/reference/cli/docker/container/run/#restart). Nothing else starts it. Needs Linux, and root or
the right to make user namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sfcdc_assets.cli.terminal.children import descendants
from sfcdc_assets_tests.soak import container_init

_AS_A_USER = [] if os.getuid() == 0 else ["--user", "--map-current-user"]
_NAMESPACE = ["unshare", *_AS_A_USER, "--pid", "--fork", "--mount-proc", "--kill-child"]
_FIRST_PAUSE, _LONGEST_PAUSE, _RAN_SECONDS = 0.1, 60.0, 10.0


class Container:
    """`start` it, then signal it; `restarts` counts how often the policy has started it again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        stop_signal: signal.Signals = signal.SIGTERM,
        grace: float = 10.0,
    ) -> None:
        """`folder`: the working folder, which stays. Its temporary files do not outlive a start, and what it prints is
        in `folder`/../logs."""
        self.name, self.restarts = name, 0
        self.log = folder.parent / "logs" / f"{name}.log"
        self._command = [*_NAMESPACE, sys.executable, "-S", str(container_init.__file__), *command]
        self._folder, self._temporary = folder, folder.parent / "tmp" / name
        self._environment = {**environment, "TMPDIR": str(self._temporary)}
        self._stop_signal, self._grace = stop_signal, grace
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = False
        self._pause = _FIRST_PAUSE
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it, and keep it as the policy does."""
        if self._process is not None:
            self._process.wait()
        with self._lock:
            self._is_wanted = True
            self._launch()

    def stop(self) -> None:
        """As `docker stop`: its signal, after the grace period a kill; the policy leaves it so."""
        self._leave()
        self._signal(self._main(), self._stop_signal)
        with suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(self._grace)
        self.cut_off()

    def cut_off(self) -> None:
        """The whole container is gone at once, as when the machine loses its power. `start` begins it again."""
        self._leave()
        # The first process of the namespace, and with it all: `unshare` ends when nothing is left. It may still have
        # to fork.
        init = self._init()
        if init is not None:
            self._signal(init, signal.SIGKILL)
        elif self._process is not None:
            self._process.kill()

    def signal_main(self, number: signal.Signals) -> None:
        """The service's own process gets a signal; the policy goes on."""
        self._signal(self._main(), number)

    def main_process(self) -> int | None:
        """Id of the service's own process, as this machine counts."""
        return self._main()

    def processes(self) -> list[int]:
        """Ids of all that it runs, as this machine counts."""
        init = self._init()
        return [] if init is None else descendants(init)

    def _leave(self) -> None:
        """The policy starts it no more."""
        with self._lock:
            self._is_wanted = False

    def _init(self) -> int | None:
        process = self._process
        below = _children(process.pid) if process is not None and process.poll() is None else []
        return below[0] if below else None

    def _main(self) -> int | None:
        init = self._init()
        below = _children(init) if init is not None else []
        return below[0] if below else None

    def _signal(self, pid: int | None, number: signal.Signals) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _launch(self) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        self._temporary.chmod(0o1777)
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        threading.Thread(target=self._keep, args=(process,), daemon=True, name=f"policy of {self.name}").start()

    def _keep(self, process: subprocess.Popen[bytes]) -> None:
        began = time.monotonic()
        process.wait()
        has_run = time.monotonic() - began > _RAN_SECONDS
        self._pause = _FIRST_PAUSE if has_run else min(2 * self._pause, _LONGEST_PAUSE)
        time.sleep(self._pause)
        with self._lock:
            # Somebody else may have stopped or started it meanwhile.
            if self._is_wanted and process is self._process:
                self.restarts += 1
                self._launch()


def can_be_run() -> bool:
    """Return whether this machine lets this user have containers."""
    if not shutil.which(_NAMESPACE[0]):
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
