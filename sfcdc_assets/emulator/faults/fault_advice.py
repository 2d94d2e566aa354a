"""What a robust client does about each fault. docs/faults.md has the same table, and a test compares them."""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault

_RESUME = "Connect again after a growing pause and resume from the last replay id that was stored."
_READ_BACK = "Read the record back, and trust no value from before until then."

ADVICE: Mapping[Fault, str] = {
    Fault.STREAM_RESET: f"{_RESUME} Nothing says why, so count on no error code.",
    Fault.SILENT_STREAM: "Give the stream up when it has been silent for longer than a keepalive may take (270 seconds "
    "and some slack), and resume.",
    Fault.STREAM_AUTH_ERROR: "Ask for a new token, once, then resume; a second refusal is a matter for a person.",
    Fault.STREAM_UNAVAILABLE: _RESUME,
    Fault.STREAM_REFUSED: "Decide by the error code, never by the status: most pass with time, a few need a new "
    "token or a person.",
    Fault.STREAM_PAUSE: "Do not take a pause for the end of a transaction, nor for the end of events that share a "
    "replay id: resuming between them would lose the rest.",
    Fault.LATE_ANSWER: "Wait as long as a keepalive may take: a stream that has not answered yet proves nothing.",
    Fault.SLOW_NETWORK: "Have a deadline for each call, and for a stream that of its keepalives; ask for more events "
    "before the last ones are dealt with.",
    Fault.GOAWAY: "Open a new connection, to whatever the name leads to now, and resume from the last replay id that "
    "was stored.",
    Fault.UNAVAILABLE: "Try again after a growing pause, a limited number of times.",
    Fault.CALL_REFUSED: "Decide by the error code, never by the status: slow down where the service asks for it, "
    "and say what a person must do.",
    Fault.SCHEMA_REFUSED: "Keep the event undecoded, in its place, and ask for the schema again.",
    Fault.SCHEMA_NOT_PERMITTED: "Keep the event undecoded, name the missing right, and go on with other objects.",
    Fault.PUBLISH_FAILED: "Publish that event again, with the same id, and no other of "
    "its batch: the others were accepted.",
    Fault.INTERNAL_ERROR: _READ_BACK,
    Fault.COMETD_UNKNOWN_CLIENT: "Handshake and subscribe again, from the last replay id.",
    Fault.COMETD_LOST_COOKIE: "Send all cookies of the session back, or handshake again.",
    Fault.COMETD_UNAUTHORIZED: "Ask for a new token, then handshake and subscribe again.",
    Fault.COMETD_CLIENT_LIMIT: "Try again after a long pause: another client has to leave first.",
    Fault.COMETD_EVENT_LIMIT: "Stop, and say that the day's deliveries are used up; go on when they are not.",
    Fault.COMETD_BUSY: "Send the same message again after a growing pause.",
    Fault.COMETD_REFUSED: "Decide by the text, not by the three digits, and follow the advice if there is one.",
    Fault.COMETD_SLOW: "Let the timeout count from the last byte that came.",
    Fault.COMETD_SILENCE: "Give a connect up after its timeout and some slack, then handshake again.",
    Fault.COMETD_RESET: "Resume from the last replay id that was stored: the session will not send these events again.",
    Fault.COMETD_CUT: "Take nothing from an answer that is not whole; resume from before it.",
    Fault.DATABASE_CHANGE: f"{_READ_BACK} Do not count on transaction keys and sequence numbers.",
    Fault.OVERFLOW: "Read back what changed since the transaction before: all objects that the event names, whole.",
    Fault.LOST_EVENT: "Compare all records with the org now and then: no stream shows it.",
    Fault.DUPLICATE: "Apply an EventUuid once, whatever its replay id.",
    Fault.ENRICHED: "Distinguish enriched fields from changed ones by changedFields, and store a replay id only after "
    "the last event that has it.",
    Fault.GARBLED_BODY: "Put the event aside, go on, and read back the records that its header names.",
    Fault.GARBLED_HEADER: "Put the event aside, go on, and compare the object with the org.",
    Fault.UNKNOWN_CHANGE_TYPE: f"Do not guess. {_READ_BACK}",
    Fault.STALE_MODSTAMP: "Page through changes by SystemModstamp with an overlap only, and do not take a row for "
    "older than its event because of it.",
    Fault.REST_LAG: "Do not believe a read that is older than an event you have: read again a little later.",
    Fault.BULK_JOB_STUCK: "Give a job up after a time of your own, abort it, and say so.",
    Fault.CLOCK_SKEW: "Order by the place in the stream, and compare no time of the org with your own clock.",
    Fault.PERMISSION_WITHDRAWN: "Do not take what you no longer see for deleted: ask for your permissions first.",
    Fault.INSTANCE_MOVE: "Read all records again, from a place in the stream noted before, and say so; replay ids may "
    "be lower than before.",
    Fault.REPLAY_IDS_EXPIRED: "Read all records again, from a place in the stream noted before, and say so.",
    Fault.TOKENS_EXPIRED: "Ask for a new token, once, also where the session has lasted for hours.",
}
REST_ADVICE: Mapping[RestFault, str] = {
    RestFault.UNAUTHORIZED: "Ask for a new token, once, and send the request again.",
    RestFault.REQUEST_LIMIT: "Stop, and say that the day's requests are used up; trying again makes it worse.",
    RestFault.TOO_MANY_REQUESTS: "Wait as long as Retry-After says, or for a growing pause, and send it again.",
    RestFault.UNAVAILABLE: "Wait as long as Retry-After says, or for a growing pause, and send it again.",
    RestFault.SERVER_ERROR: "Send what only reads again, a limited number of times; look first whether what writes was "
    "done.",
    RestFault.URI_TOO_LONG: "Ask for less at once; do not read HTML as an answer of the org.",
    RestFault.GARBAGE: "Believe the content type and the form of the answer, not the status alone; try again later.",
    RestFault.CUT_OFF: "Compare the length with what was announced, use nothing of the answer, and send it again.",
    RestFault.TIMEOUT: "Have a timeout of your own for connecting and for reading.",
    RestFault.SLOW: "Let the timeout count from the last byte that came, and hold no lock meanwhile.",
    RestFault.BODY_CUT: "Commit a page when it is whole; ask for the same page again, by the same locator.",
    RestFault.LOCATOR_GONE: "Begin the query again; do not take the pages before for the whole.",
    RestFault.REFUSED: "Decide by the errorCode: ask for less, or say what a person must do.",
}
