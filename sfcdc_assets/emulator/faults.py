"""Faults an operator or a test arms; the emulated org commits each as often as it was armed
(docs/salesforce-streams.md, "Failures seen in the field").

Some strike calls and streams of the Pub/Sub API, some (`cometd_...`) requests of the Streaming API, some the events as
they are published. Those of REST are apart
(`rest/rest_faults.py`), as they are armed for a path.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum


class Fault(StrEnum):
    """What can go wrong."""

    STREAM_RESET = "stream_reset"
    SILENT_STREAM = "silent_stream"
    STREAM_AUTH_ERROR = "stream_auth_error"
    STREAM_UNAVAILABLE = "stream_unavailable"
    STREAM_PAUSE = "stream_pause"
    LATE_ANSWER = "late_answer"
    GOAWAY = "goaway"
    UNAVAILABLE = "unavailable"
    SCHEMA_REFUSED = "schema_refused"
    SCHEMA_NOT_PERMITTED = "schema_not_permitted"
    PUBLISH_FAILED = "publish_failed"
    INTERNAL_ERROR = "internal_error"
    COMETD_UNKNOWN_CLIENT = "cometd_unknown_client"
    COMETD_LOST_COOKIE = "cometd_lost_cookie"
    COMETD_UNAUTHORIZED = "cometd_unauthorized"
    COMETD_CLIENT_LIMIT = "cometd_client_limit"
    COMETD_EVENT_LIMIT = "cometd_event_limit"
    COMETD_BUSY = "cometd_busy"
    COMETD_SILENCE = "cometd_silence"
    COMETD_RESET = "cometd_reset"
    COMETD_CUT = "cometd_cut"
    DATABASE_CHANGE = "database_change"
    OVERFLOW = "overflow"
    LOST_EVENT = "lost_event"
    DUPLICATE = "duplicate"
    ENRICHED = "enriched"
    GARBLED_BODY = "garbled_body"
    GARBLED_HEADER = "garbled_header"
    UNKNOWN_CHANGE_TYPE = "unknown_change_type"


DESCRIPTIONS: Mapping[Fault, str] = {
    Fault.STREAM_RESET: "an open stream ends as clients see a reset one: INTERNAL, no trailers, no error code",
    Fault.SILENT_STREAM: "an open stream stays open and sends nothing any more, no keepalive either",
    Fault.STREAM_AUTH_ERROR: "an open stream ends with UNAUTHENTICATED, service.auth.error",
    Fault.STREAM_UNAVAILABLE: "an open stream ends with INTERNAL, service.unavailable",
    Fault.STREAM_PAUSE: "a response ends after `after` events (default 1) although more are there, and the stream says"
    " nothing for `seconds` (default 5), not even a keepalive",
    Fault.LATE_ANSWER: "the first response of a stream comes `seconds` late (default 5), whatever is there to deliver",
    Fault.GOAWAY: "the server goes away as for maintenance: every connection gets a GOAWAY, its streams are cut after"
    " `seconds` (default 1), and new connections are taken a moment later",
    Fault.UNAVAILABLE: "a call is refused at its start: INTERNAL, service.unavailable",
    Fault.SCHEMA_REFUSED: "a GetSchema call is refused: INTERNAL, schema.api.unavailable",
    Fault.SCHEMA_NOT_PERMITTED: "a GetSchema call is refused: PERMISSION_DENIED, schema.meta.permission",
    Fault.PUBLISH_FAILED: "a platform event is not published, as its result says; by REST it is refused with"
    " PLATFORM_EVENT_PUBLISHING_UNAVAILABLE",
    Fault.INTERNAL_ERROR: "a record change gives a GAP_* event instead of its own",
    Fault.COMETD_UNKNOWN_CLIENT: "a connect is refused with 403::Unknown client and its session forgotten, a held one"
    " at once",
    Fault.COMETD_LOST_COOKIE: "a connect or subscribe is refused as if it had come without its cookie",
    Fault.COMETD_UNAUTHORIZED: "a message is refused with 401::Authentication invalid, a held connect at once, a"
    " handshake as 403::Handshake denied",
    Fault.COMETD_CLIENT_LIMIT: "a subscribe is refused with 403::Organization concurrent user limit exceeded",
    Fault.COMETD_EVENT_LIMIT: "a connect is refused with 403::Organization total events daily limit exceeded and its"
    " session forgotten, a held one at once",
    Fault.COMETD_BUSY: "a message is refused with 503::Server is too busy",
    Fault.COMETD_SILENCE: "a connect is not answered any more, whatever happens, until its client gives up",
    Fault.COMETD_RESET: "the connection breaks before the answer to a connect, a held one at once; events that would"
    " have been in it are lost to this session",
    Fault.COMETD_CUT: "the answer to a connect with events ends in the middle of its JSON",
    Fault.DATABASE_CHANGE: "a transaction is one made in the database: GAP_* events, merged, sequence number 1, and a"
    " database id as transaction key",
    Fault.OVERFLOW: "a transaction with more changes than `threshold` (default 0) gives a GAP_OVERFLOW event an object"
    " for what is beyond it",
    Fault.LOST_EVENT: "a record change raises no event at all",
    Fault.DUPLICATE: "an event is published twice, same uuid and new replay id; the copy follows after `after` other"
    " events (default 0)",
    Fault.ENRICHED: "an event is taken apart into one for each record, which share a replay id; updates and deletes"
    " carry `fields` too (names with commas; default the record's first two)",
    Fault.GARBLED_BODY: "an event's payload cannot be read beyond its header",
    Fault.GARBLED_HEADER: "an event's payload cannot be read at all",
    Fault.UNKNOWN_CHANGE_TYPE: "an event has a change type nobody knows yet, in a schema that has it",
}
"""What each fault does each time it is committed, with its options."""


class Faults:
    """Counters of armed faults. Thread-safe; each point of the service takes one when it commits the fault."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: Counter[Fault] = Counter()
        self._struck: Counter[Fault] = Counter()
        self._options: dict[Fault, dict[str, str | int]] = {}
        self._on_armed: list[Callable[[], None]] = []

    def arm(self, fault: Fault, times: int = 1, **options: str | int) -> None:
        """Commit `fault` at its next `times` points. Open streams notice at once, without waiting for an event.

        `options` are those that DESCRIPTIONS names; they hold for all that is armed of this fault until armed again.
        """
        with self._lock:
            self._armed[fault] += times
            self._options[fault] = options
        for wake in self._on_armed:
            wake()

    def disarm(self, fault: Fault | None = None) -> None:
        """Forget everything armed, or one fault."""
        with self._lock:
            if fault is None:
                self._armed.clear()
            else:
                self._armed.pop(fault, None)

    def armed(self, fault: Fault) -> int:
        """How often `fault` will still happen."""
        # Asked for each record change, so without the lock: a counter is read at once.
        return self._armed[fault]

    def struck(self, fault: Fault) -> int:
        """How often `fault` has happened since the process started."""
        return self._struck[fault]

    def option(self, fault: Fault, name: str, default: str | int) -> str | int:
        """An option `fault` was armed with."""
        with self._lock:
            return self._options.get(fault, {}).get(name, default)

    def take(self, fault: Fault) -> bool:
        """Whether `fault` happens here and now; if so it is used up once."""
        if self._armed[fault] <= 0:
            return False
        with self._lock:
            if self._armed[fault] <= 0:
                return False
            self._armed[fault] -= 1
            self._struck[fault] += 1
            return True

    def on_armed(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a fault is armed."""
        self._on_armed.append(wake)
