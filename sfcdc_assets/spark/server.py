"""The server of a standing Spark: an ordinary session of this process, with Spark Connect's plugin in its JVM.

Spark listens on a free port of the loopback interface and asks for a token that only its file holds. The JVM ends with
this process, whatever ends that.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.runtime.process_identity import process_began
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark import standing
from sfcdc_assets.spark.session import own_session, spark_options
from sfcdc_assets.spark.standing import identity
from sfcdc_assets.spark.warm_up import warm_up

_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
LOOK_SECONDS = 2.0
CODE_LOOKS = 15
"""Every so many looks the package's files are looked at too: some hundred of them, 1 % of a core at each look. Who asks
for a Spark looks for itself."""
_CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": standing.ADDRESS,
    "spark.connect.grpc.binding.port": "0",
    # Runs that share the server share its cores.
    "spark.scheduler.mode": "FAIR",
}


class SparkEnded(SfcdcError):
    """The JVM of a standing Spark is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"The standing Spark of {path} has ended by itself. Runs use one of their own until `sfcdc spark` is "
            "started again, which a service does by itself."
        )


class SparkOutdated(SfcdcError):
    """The package was changed since the server was started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"The code has changed since the standing Spark of {path} was started, so runs do not use it any more. "
            "Start `sfcdc spark` again, as a service does by itself."
        )


@contextmanager
def listening(settings: Settings) -> Iterator[SparkSession]:
    """Start a Spark that listens and is known by the settings' file; ended, and its file removed, at the end. Raises
    `SettingsError` where the file is another one's."""
    path = settings.spark_standing.absolute()
    options = spark_options(settings)
    made_of = identity(options)  # before the first worker imports anything
    starting = standing.StandingSpark(0, "", os.getpid(), made_of, process_began(os.getpid()))
    if (other := standing.claim(path, starting)) is not None:
        raise SettingsError("SFCDC_SPARK_STANDING", f"{path} is that of process {other.pid}", "End it, or name another")
    try:
        token = secrets.token_urlsafe(32)
        os.environ[_TOKEN] = token
        try:
            session = own_session({**options, **_CONNECT})
        finally:
            del os.environ[_TOKEN]
        # Python's server of accumulators would tell in a traceback of a JVM that is gone; `SparkEnded` is the message.
        session.sparkContext._accumulatorServer.handle_error = lambda _request, _address: None
        # Spark keeps a daemon of Python workers for each environment. Functions of its clients come without this one,
        # so the warm-up's daemon would be another one than theirs, and stay: 200 MB, and a second of a core.
        session.sparkContext.environment.pop("PYTHONHASHSEED", None)
        try:
            warm_up(session)
            standing.write(path, replace(starting, port=_port(session), token=token))
            yield session
        finally:
            # First of all: who asks from now on starts one of its own.
            standing.forget(path, os.getpid())
            # One that is gone answers nothing, and PySpark would tell of that in tracebacks.
            if session.sparkContext._gateway.proc.poll() is None:
                session.stop()
    finally:
        standing.forget(path, os.getpid())


def watch(session: SparkSession, settings: Settings, is_stopped: Callable[[float], bool]) -> None:
    """Return when `is_stopped`, which is given how many seconds it may wait, says so.

    Raises `SparkEnded`, and `SparkOutdated` when no run has anything to do in it.
    """
    path = settings.spark_standing.absolute()
    options = spark_options(settings)
    made_of = identity(options)
    jvm = session.sparkContext._gateway.proc
    # Before anything is known of its end: objects may be given back to it at any moment.
    logging.getLogger().addFilter(_is_not_of_py4j)
    looks = count(1)
    while not is_stopped(LOOK_SECONDS):
        if jvm.poll() is not None:
            raise SparkEnded(path)
        if next(looks) % CODE_LOOKS:
            continue
        if identity(options) != made_of and not _service(session).listActiveExecutions().isRight():
            raise SparkOutdated(path)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """py4j tells in a traceback of each object that it cannot give back to a JVM that is gone; what fails for who asks
    it for something is raised there."""
    return record.module not in ("clientserver", "java_gateway")


def _port(session: SparkSession) -> int:
    """Return the port that Spark took."""
    return int(_service(session).localPort())


def _service(session: SparkSession) -> Any:
    """Return the Scala object of the service. PySpark has no calls for what it knows."""
    loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.loadClass("org.apache.spark.sql.connect.service.SparkConnectService$").getField("MODULE$").get(None)
