"""Faults an operator or a test arms; the emulated org commits each as often as it was armed
(docs/salesforce-streams.md, "Failures seen in the field").

Some strike calls and streams of the Pub/Sub API, some (`cometd_...`) requests of the Streaming API, some the events as
they are published, some the org itself. Those of REST are apart (`rest/rest_faults.py`), as they are armed for a path.

Most happen so many times, each at its next occasion. Those in LASTING hold for some time instead: for `seconds` by the
org's clock, or until they are disarmed.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum

from sfcdc_assets.emulator.org.clock import Clock, system_clock


class Fault(StrEnum):
    """What can go wrong."""

    STREAM_RESET = "stream_reset"
    SILENT_STREAM = "silent_stream"
    STREAM_AUTH_ERROR = "stream_auth_error"
    STREAM_UNAVAILABLE = "stream_unavailable"
    STREAM_REFUSED = "stream_refused"
    STREAM_PAUSE = "stream_pause"
    LATE_ANSWER = "late_answer"
    SLOW_NETWORK = "slow_network"
    GOAWAY = "goaway"
    UNAVAILABLE = "unavailable"
    CALL_REFUSED = "call_refused"
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
    COMETD_REFUSED = "cometd_refused"
    COMETD_SLOW = "cometd_slow"
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
    STALE_MODSTAMP = "stale_modstamp"
    REST_LAG = "rest_lag"
    BULK_JOB_STUCK = "bulk_job_stuck"
    CLOCK_SKEW = "clock_skew"
    PERMISSION_WITHDRAWN = "permission_withdrawn"
    INSTANCE_MOVE = "instance_move"
    REPLAY_IDS_EXPIRED = "replay_ids_expired"
    TOKENS_EXPIRED = "tokens_expired"


LASTING = frozenset({Fault.REST_LAG, Fault.CLOCK_SKEW, Fault.PERMISSION_WITHDRAWN})
"""Faults that hold for `seconds` by the org's clock, or without that option until they are disarmed."""
SUDDEN = frozenset({Fault.GOAWAY, Fault.INSTANCE_MOVE, Fault.REPLAY_IDS_EXPIRED, Fault.TOKENS_EXPIRED})
"""Faults that a served org commits at the moment they are armed."""


DESCRIPTIONS: Mapping[Fault, str] = {
    Fault.STREAM_RESET: "an open stream ends as clients see a reset one: INTERNAL, no trailers, no error code",
    Fault.SILENT_STREAM: "an open stream sends nothing any more, no keepalive either",
    Fault.STREAM_AUTH_ERROR: "an open stream ends with UNAUTHENTICATED, service.auth.error",
    Fault.STREAM_UNAVAILABLE: "an open stream ends with INTERNAL, service.unavailable",
    Fault.STREAM_REFUSED: "an open stream ends with the error code `code` (default subscription.internal.error)",
    Fault.STREAM_PAUSE: "a response ends after `after` events (default 1) although more are there, and the stream says"
    " nothing for `seconds` (default 5), not even a keepalive",
    Fault.LATE_ANSWER: "the first response of a stream comes `seconds` late (default 5), whatever is there to deliver",
    Fault.SLOW_NETWORK: "what the Pub/Sub API sends arrives `seconds` late (default 5): a response of a stream, or the"
    " answer to another call",
    Fault.GOAWAY: "every connection gets a GOAWAY, as for maintenance, its streams are cut after `seconds` (default 1),"
    " and new connections are taken a moment later",
    Fault.UNAVAILABLE: "a call is refused at its start: INTERNAL, service.unavailable",
    Fault.CALL_REFUSED: "a call is refused at its start with the error code `code` (default"
    " service.protection.triggered)",
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
    Fault.COMETD_REFUSED: "a message is refused with `error` (default 403::User not enabled for streaming)",
    Fault.COMETD_SLOW: "the answer to a request, with a pause of `seconds` (default 5) in the middle of its body",
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
    Fault.STALE_MODSTAMP: "a transaction leaves the SystemModstamp of its records `behind` seconds (default 60) before"
    " its commit",
    Fault.REST_LAG: "REST and bulk queries show the records as they were `behind` seconds ago (default 60), while"
    " events come at once; it lasts",
    Fault.BULK_JOB_STUCK: "a Bulk API job that is created stays InProgress until it is aborted, as does a batch of the"
    " first Bulk API",
    Fault.CLOCK_SKEW: "the org's clock is `ahead` seconds (default 300) ahead of this machine's, in the times of"
    " commits, in the Date of answers and where a JWT is judged; it lasts",
    Fault.PERMISSION_WITHDRAWN: "the user lacks View All Data, or View All Records of `entity`, and is given it back at"
    " the end: REST and Bulk return only its own records, and refuse nothing; it lasts",
    Fault.INSTANCE_MOVE: "at once: the org moves to an instance of another name, its replay ids begin again, lower, and"
    " earlier ones are refused",
    Fault.REPLAY_IDS_EXPIRED: "at once: 72 hours pass for the stored events, and every earlier replay id is refused",
    Fault.TOKENS_EXPIRED: "at once: all access tokens become worthless; streams that are open go on",
}
"""What each fault does each time it is committed, with its options."""


class Faults:
    """Counters of armed faults. Thread-safe; each point of the service takes one when it commits the fault."""

    def __init__(self, clock: Clock = system_clock) -> None:
        """`clock`: the org's, by which a fault that lasts comes to its end."""
        self._clock = clock
        self._lock = threading.Lock()
        self._armed: Counter[Fault] = Counter()
        self._until: dict[Fault, float] = {}
        self._struck: Counter[Fault] = Counter()
        self._options: dict[Fault, dict[str, str | int]] = {}
        self._on_armed: list[Callable[[], None]] = []

    def arm(self, fault: Fault, times: int = 1, **options: str | int) -> None:
        """Commit `fault` at its next `times` points. Open streams notice at once, without waiting for an event.

        `options` are those that DESCRIPTIONS names; they hold for all that is armed of this fault until armed again.
        One of LASTING begins now, whatever `times` is, and ends after `seconds` if that is among its options.
        """
        with self._lock:
            self._options[fault] = options
            if fault in LASTING:
                seconds = options.get("seconds")
                self._until[fault] = math.inf if seconds is None else self._clock() + float(seconds) * 1000
                self._struck[fault] += 1
            else:
                self._armed[fault] += times
        for wake in self._on_armed:
            wake()

    def disarm(self, fault: Fault | None = None) -> None:
        """Forget everything armed, or one fault."""
        with self._lock:
            if fault is None:
                self._armed.clear()
                self._until.clear()
            else:
                self._armed.pop(fault, None)
                self._until.pop(fault, None)

    def armed(self, fault: Fault) -> int:
        """Return how often `fault` will still happen; 1 while one of LASTING holds."""
        # Asked for each record change, so without the lock: a counter is read at once.
        return int(self.lasts(fault)) if fault in LASTING else self._armed[fault]

    def lasts(self, fault: Fault) -> bool:
        """Return whether a fault of LASTING holds now."""
        return self._until.get(fault, 0) > self._clock()

    def lasting_ms(self, fault: Fault, option: str, default_seconds: int) -> int:
        """Return an option in seconds of a fault of LASTING as milliseconds while it holds; 0 otherwise."""
        return round(float(self.option(fault, option, default_seconds)) * 1000) if self.lasts(fault) else 0

    def struck(self, fault: Fault) -> int:
        """Return how often `fault` has happened since the process started."""
        return self._struck[fault]

    def option(self, fault: Fault, name: str, default: str | int) -> str | int:
        """Return an option `fault` was armed with."""
        with self._lock:
            return self._options.get(fault, {}).get(name, default)

    def take(self, fault: Fault) -> bool:
        """Return whether `fault` happens here and now; if so it is used up once."""
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
