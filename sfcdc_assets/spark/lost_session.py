"""A session whose Spark is gone: its cluster ended the application, its JVM died, or its server was started again.

PySpark goes on giving out such a session (it looks only at whether this process has stopped it), and whatever is asked
of it fails. So it is looked at here, and forgotten before another one is had.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession


def has_ended(session: SparkSession) -> bool:
    """Return whether nothing can be done with it any more. Of a session of Spark Connect it is known from its last call
    on."""
    if hasattr(session, "is_stopped"):
        return bool(session.is_stopped)
    context = session.sparkContext._jsc
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):  # the JVM does not answer
        return True


def forget_ended() -> None:
    """Have this process give up a Spark of its own that has ended, if it has one."""
    session = SparkSession._instantiatedSession
    if session is None or not has_ended(session):
        return
    is_alive = _answers(session)
    with suppress(Py4JError, OSError):
        session.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if not is_alive:
        SparkContext._gateway = SparkContext._jvm = None


def _answers(session: SparkSession) -> bool:
    try:
        session._jvm.System.currentTimeMillis()
    except (Py4JError, OSError):
        return False
    return True
