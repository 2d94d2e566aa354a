"""The JVM of a Spark of our own, without the noise of its start.

Java and Spark write warnings to standard error at each start ("Using incubator modules", "Setting default log level")
that ask nothing of anybody. So what a JVM says while it starts is shown only if it does not start; what it says later
is shown as it comes, but for warnings of Java itself, which some versions write at the first use of a feature.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import IO

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

_OF_JAVA = b"WARNING: "
"""How the JVM begins its own warnings; those of Spark and of Python workers begin otherwise."""


class JvmMessages:
    """Reads what a JVM writes, in a thread, until its end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="messages of the JVM", daemon=True)
        self._thread.start()

    def has_started(self) -> None:
        """What it said so far is forgotten."""
        with self._lock:
            self._held = None

    def has_failed(self) -> None:
        """What it said so far is shown; call it when it is gone."""
        self._thread.join(timeout=1.0)
        with self._lock:
            held, self._held = self._held or [], None
        for line in held:
            _show(line)

    def _read(self) -> None:
        for line in self._stream:
            with self._lock:
                if self._held is not None:
                    self._held.append(line)
                    continue
            if not line.startswith(_OF_JAVA):
                _show(line)


def launch(conf: SparkConf) -> tuple[JavaGateway, JvmMessages]:
    """Start a JVM; PySpark's own errors are raised when it does not start, and what it said is shown then."""
    readable, writable = os.pipe()
    messages = JvmMessages(os.fdopen(readable, "rb", buffering=0))
    try:
        # PySpark's arguments to capture what the JVM writes. It writes nothing to standard output that is for anybody.
        return launch_gateway(conf, {"stdout": writable, "stderr": writable}), messages
    except BaseException:
        os.close(writable)
        writable = -1
        messages.has_failed()
        raise
    finally:
        if writable >= 0:
            os.close(writable)


def _show(line: bytes) -> None:
    sys.stderr.write(line.decode(errors="replace"))
    sys.stderr.flush()
