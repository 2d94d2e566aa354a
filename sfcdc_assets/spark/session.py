"""The one Spark session of a process and its settings: of a server that is there, or of a Spark of its own."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.spark import standing
from sfcdc_assets.spark.class_archive import Recording, with_archive
from sfcdc_assets.spark.java import check_java
from sfcdc_assets.spark.private_files import LOCAL_DIR, UMASK, local_folder, make_local_folder, properties_file
from sfcdc_assets.spark.remote_session import remote_session

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
        """Forget what it said so far."""
        os.write(self.writable, _STARTED)
        os.close(self.writable)

    def has_failed(self) -> None:
        """Show what it said so far; what is left of it may speak on for a moment."""
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


def launch(options: Mapping[str, str]) -> tuple[JavaGateway, JvmMessages]:
    """Start a JVM with these options of Spark, none of which stands on its command line but `extraJavaOptions`. What it
    writes is this user's alone; its Python workers write with this process's own permissions.

    One thread at a time. PySpark's own errors are raised when it does not start, and what it said is shown then.
    """
    messages = JvmMessages()
    # PySpark's arguments to capture what the JVM writes. It writes nothing to standard output that is for anybody.
    process = {"stdout": messages.writable, "stderr": messages.writable, "umask": 0o077}
    try:
        with _submitted(options):
            return launch_gateway(None, process), messages
    except BaseException:
        messages.has_failed()
        raise


@contextmanager
def _submitted(options: Mapping[str, str]) -> Iterator[None]:
    """Enter the environment that PySpark reads when it starts a JVM: a file of options in place of arguments, beside
    which those of the installation's `spark-defaults.conf` still count."""
    name, given = "PYSPARK_SUBMIT_ARGS", os.environ.get("PYSPARK_SUBMIT_ARGS")
    with properties_file(options) as file:
        os.environ[name] = (
            f"--properties-file {shlex.quote(str(file))} --load-spark-defaults {given or 'pyspark-shell'}"
        )
        os.environ[UMASK] = f"{_umask():o}"
        try:
            yield
        finally:
            del os.environ[name], os.environ[UMASK]
            if given is not None:
                os.environ[name] = given


def _umask() -> int:
    """Return this process's umask. Only setting it tells."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def _show(line: bytes) -> None:
    sys.stderr.write(line.decode(errors="replace"))
    sys.stderr.flush()


_QUICK_CODE = "-XX:TieredStopAtLevel=1"
"""Data is in the Python workers and most JVMs live for seconds, so their start counts (docs/storage-layout.md, "Spark
settings")."""
_QUICK_JVM = f"{_QUICK_CODE} -XX:+UseSerialGC"
"""For a JVM whose options nobody else sets: two that choose a collector keep it from starting."""

_SMALL_HEAP = "-Xms64m -XX:MinHeapFreeRatio=15 -XX:MaxHeapFreeRatio=30 -XX:-ShrinkHeapInSteps"
"""Java begins with a 64th of the machine's memory and keeps what it once had: 370 MB for the 60 that are in use. So it
begins with less, and gives back what a collection finds free."""
_COLLECTS_EVERY = "5min"
"""How often Spark has Java collect whatever there is; a tenth of a second. A Spark without work would not otherwise."""

_starting = threading.Lock()
"""One thread starts the JVM; others that ask meanwhile get its session."""


def spark_options(settings: Settings) -> dict[str, str]:
    """Options of the session: those measured to matter (docs/storage-layout.md, "Spark settings"), then
    SFCDC_SPARK_CONF_*."""
    options = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(3 * _cores(settings.spark_conf)),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    }
    if settings.spark_remote:
        return {**options, **settings.spark_conf, "spark.remote": settings.spark_remote.get_secret_value()}
    options |= {
        "spark.app.name": "sfcdc_assets",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.python.worker.reuse": "true",
        "spark.driver.memory": "1g",
        "spark.cleaner.periodicGC.interval": _COLLECTS_EVERY,
        "spark.master": settings.spark_master,
        "spark.python.daemon.module": "sfcdc_assets.spark.worker_daemon",
    }
    if settings.spark_master.startswith("local"):
        options["spark.driver.host"] = "127.0.0.1"
        options["spark.driver.bindAddress"] = "127.0.0.1"
        # Other users of the machine reach its ports. Spark makes the secret of a local master itself, and of no other.
        if not settings.spark_master.startswith("local-cluster"):
            options["spark.authenticate"] = "true"
        options[LOCAL_DIR] = str(local_folder())
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        options["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={quiet} {_QUICK_JVM} {_SMALL_HEAP}"
    else:
        # extraJavaOptions, of a user or of the cluster's own defaults, are kept, and come after these.
        options["spark.driver.defaultJavaOptions"] = options["spark.executor.defaultJavaOptions"] = _QUICK_CODE
    return {**options, **settings.spark_conf}


def _cores(options: Mapping[str, str]) -> int:
    """Return those that a session of a cluster asks for, if it says how many; otherwise this machine's."""
    try:
        if "spark.cores.max" in options:
            return int(options["spark.cores.max"])
        if "spark.executor.instances" in options:
            return int(options["spark.executor.instances"]) * int(options.get("spark.executor.cores", "1"))
    except ValueError:  # Spark itself says which one is no number
        pass
    return os.cpu_count() or 2


def spark_session(settings: Settings) -> SparkSession:
    """Open a session: on the Spark Connect server of SFCDC_SPARK_REMOTE, else on the standing Spark of
    SFCDC_SPARK_STANDING if it is there, else the process's own, started on first use (a JVM; seconds).

    Raises `JavaMissing` and `LocalFolderNotPrivate` before anything is started, and `SettingsError`.
    """
    options = spark_options(settings)
    if settings.spark_remote:
        return remote_session(options)
    found = standing.find(settings.spark_standing, options)
    return (_shared(found) if found is not None else None) or own_session(options)


def is_shared(session: SparkSession) -> bool:
    """Return whether it is one of a standing Spark."""
    return hasattr(session, "is_lost")


def is_lost(session: SparkSession) -> bool:
    """Return whether its Spark is gone: the standing one, the server of Spark Connect, or the application of its own,
    which a cluster ends when its master is started again, or when somebody kills it. `spark_session` gives another one
    then."""
    return bool(session.is_lost) if is_shared(session) else has_ended(session)


def release(session: SparkSession) -> None:
    """Give back what a standing Spark keeps for the session; a Spark of this process stays for its next use."""
    if is_shared(session) and not is_lost(session):
        session.stop()


def _shared(found: standing.StandingSpark) -> SparkSession | None:
    from sfcdc_assets.spark.shared_session import connect  # noqa: PLC0415 - pandas and gRPC, for who uses them

    return connect(found)


def own_session(options: dict[str, str], recording: Recording | None = None) -> SparkSession:
    """Return the session of a Spark that this process starts, or has started before. Raises `JavaMissing`.

    `recording`: of the classes that it loads, in place of the archive of those that an earlier one has."""
    check_java()
    # Workers must find our packages: they run the interpreter that runs us, not the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Of the JVM that only works out the command line of the other one.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK_JVM)
    options = with_archive(options) if recording is None else recording.options(options)
    make_local_folder(options)
    with _starting:
        forget_ended()
        return _built(options) if SparkContext._gateway is not None else _started(options)


def _started(options: dict[str, str]) -> SparkSession:
    """Start with a JVM whose messages are kept from the terminal while it starts."""
    conf = SparkConf().setAll(list(options.items()))
    gateway, messages = launch(options)
    try:
        SparkContext(conf=conf, gateway=gateway)
        session = _built(options)
    except BaseException:
        messages.has_failed()
        raise
    messages.has_started()
    return session


def _built(options: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for option, value in options.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()


def has_ended(session: SparkSession) -> bool:
    """Return whether nothing can be done with it any more: its cluster ended the application, its JVM died, or its
    server was started again. PySpark goes on giving out such a session: it looks only at whether this process has
    stopped it. Of a session of Spark Connect it is known from its last call on."""
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
    # What a context that does not answer leaves undone when it is stopped: PySpark would refuse another beside it.
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if not is_alive:
        SparkContext._gateway = SparkContext._jvm = None


def _answers(session: SparkSession) -> bool:
    try:
        session._jvm.System.currentTimeMillis()
    except (Py4JError, OSError):
        return False
    return True
