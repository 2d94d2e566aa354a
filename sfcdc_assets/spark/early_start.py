"""Spark started ahead of its first use, beside work that does not need it yet."""

from __future__ import annotations

import logging
import threading

from sfcdc_assets.settings.settings import Settings

log = logging.getLogger(__name__)


class EarlySpark:
    """`start` begins in a thread, the first time it is called.

    Whoever asks for the session then waits for what is left of its start, and is told what goes wrong with it: here
    nothing is. Of a standing Spark only the client is loaded; one of our own is started and, while nothing else is to
    be done, runs a job of nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_needed = threading.Event()

    def start(self) -> None:
        """Start, and return at once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._start, name="early spark", daemon=True)
                self._thread.start()

    def hand_over(self) -> None:
        """Leave Spark to the first batch, which comes now: a job of nothing would only be in its way."""
        self._is_needed.set()

    def _start(self) -> None:
        try:
            # In this thread, because PySpark takes a second to import.
            from sfcdc_assets.spark.session import is_shared, release, spark_session  # noqa: PLC0415
            from sfcdc_assets.spark.warm_up import warm_up  # noqa: PLC0415

            session = spark_session(self._settings)
            if not is_shared(session) and not self._is_needed.is_set():
                warm_up(session)
            release(session)
        except Exception:
            log.debug("Spark could not be started ahead", exc_info=True)
