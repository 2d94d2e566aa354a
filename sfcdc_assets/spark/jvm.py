"""The JVM of a Spark of our own, without the noise of its start.

Java and Spark write warnings to standard error at each start ("Using incubator modules", "Setting default log level")
that ask nothing of anybody. So what a JVM says while it starts is shown only if it does not start; what it says later
is shown as it comes, but for warnings of Java itself, which some versions write at the first use of a feature.
"""

from __future__ import annotations

import os
import sys
import threading

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

_OF_JAVA = b"WARNING: "
"""How the JVM begins its own warnings; those of Spark and of Python workers begin otherwise."""
_STARTED = b"\0 started\n"
"""What we write into the pipe ourselves: what was written before it belongs to the start, read by now or not."""


class JvmMessages:
    """A pipe that a JVM writes to, `writable`, and a thread that reads it until the JVM's end."""

    def __init__(self) -> None:
        readable, self.writable = os.pipe()
        self._stream = os.fdopen(readable, "rb")
        self._held: list[bytes] = []
        self._thread = threading.Thread(target=self._read, name="messages of the JVM", daemon=True)
        self._thread.start()

    def has_started(self) -> None:
        """What it said so far is forgotten."""
        os.write(self.writable, _STARTED)
        os.close(self.writable)

    def has_failed(self) -> None:
        """What it said so far is shown; what is left of it may speak on for a moment."""
        os.close(self.writable)
        self._thread.join(timeout=1.0)
        for line in list(self._held):
            _show(line)

    def _read(self) -> None:
        is_starting = True
        for line in self._stream:
            if line.endswith(_STARTED):
                is_starting = False
                self._held.clear()
            elif is_starting:
                self._held.append(line)
            elif not line.startswith(_OF_JAVA):
                _show(line)


def launch(conf: SparkConf) -> tuple[JavaGateway, JvmMessages]:
    """Start a JVM. PySpark's own errors are raised when it does not start, and what it said is shown then."""
    messages = JvmMessages()
    try:
        # PySpark's arguments to capture what the JVM writes. It writes nothing to standard output that is for anybody.
        return launch_gateway(conf, {"stdout": messages.writable, "stderr": messages.writable}), messages
    except BaseException:
        messages.has_failed()
        raise


def _show(line: bytes) -> None:
    sys.stderr.write(line.decode(errors="replace"))
    sys.stderr.flush()
