"""What a robust client does about each fault. docs/faults.md is written from here."""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault

_RESUME = "Connect again after a growing pause; resume from the last stored replay id."
_READ_BACK = "Read the record back; trust no earlier value until then."

ADVICE: Mapping[Fault, str] = {
    Fault.STREAM_RESET: f"{_RESUME} Count on no error code.",
    Fault.SILENT_STREAM: "Give the stream up after 270 seconds of silence and some slack, and resume.",
    Fault.STREAM_AUTH_ERROR: "Ask for one new token, then resume; a second refusal is a matter for a person.",
    Fault.STREAM_UNAVAILABLE: _RESUME,
    Fault.STREAM_REFUSED: "Decide by the error code, never by the status.",
    Fault.STREAM_PAUSE: "Do not take a pause for the end of a transaction, nor for that of events that share a replay "
    "id.",
    Fault.LATE_ANSWER: "Wait as long as a keepalive may take.",
    Fault.SLOW_NETWORK: "Have a deadline for each call, and for a stream that of its keepalives; ask for more events "
    "early.",
    Fault.GOAWAY: "Open a new connection, to whatever the name leads to now, and resume.",
    Fault.UNAVAILABLE: "Try again after a growing pause, a limited number of times.",
    Fault.CALL_REFUSED: "Decide by the error code, never by the status.",
    Fault.SCHEMA_REFUSED: "Keep the event undecoded, and ask for the schema again.",
    Fault.SCHEMA_NOT_PERMITTED: "Keep the event undecoded, name the missing right, and go on with other objects.",
    Fault.PUBLISH_FAILED: "Publish that event again, with the same id, and no other of its batch.",
    Fault.INTERNAL_ERROR: _READ_BACK,
    Fault.COMETD_UNKNOWN_CLIENT: "Handshake and subscribe again, from the last replay id.",
    Fault.COMETD_LOST_COOKIE: "Send all cookies of the session back, or handshake again.",
    Fault.COMETD_UNAUTHORIZED: "Ask for one new token, then handshake and subscribe again.",
    Fault.COMETD_CLIENT_LIMIT: "Try again after a long pause.",
    Fault.COMETD_EVENT_LIMIT: "Stop until there are deliveries again.",
    Fault.COMETD_BUSY: "Send it again after a growing pause.",
    Fault.COMETD_REFUSED: "Decide by the text, not by the three digits, and follow the advice if there is one.",
    Fault.COMETD_SLOW: "Let the timeout count from the last byte.",
    Fault.COMETD_SILENCE: "Give a connect up after its timeout and some slack, then handshake again.",
    Fault.COMETD_RESET: "Resume from the last stored replay id: the session does not send these events again.",
    Fault.COMETD_CUT: "Take nothing from an answer that is not whole; resume from before it.",
    Fault.DATABASE_CHANGE: f"{_READ_BACK} Do not count on transaction keys and sequence numbers.",
    Fault.OVERFLOW: "Read the objects back that the events name, whole.",
    Fault.LOST_EVENT: "Compare all records with the org now and then.",
    Fault.DUPLICATE: "Apply an EventUuid once, whatever its replay id.",
    Fault.ENRICHED: "Distinguish enriched fields by changedFields; store a replay id only after the last event that "
    "has it.",
    Fault.GARBLED_BODY: "Put the event aside, go on, and read back the records that its header names.",
    Fault.GARBLED_HEADER: "Put the event aside, go on, and compare the object with the org.",
    Fault.UNKNOWN_CHANGE_TYPE: f"Do not guess. {_READ_BACK}",
    Fault.STALE_MODSTAMP: "Do not take a row for older than its event because of its SystemModstamp; page with an "
    "overlap.",
    Fault.REST_LAG: "Do not believe a read that is older than an event you have: read again later.",
    Fault.BULK_JOB_STUCK: "Give a job up after a time of your own, and abort it.",
    Fault.CLOCK_SKEW: "Order by the stream, and compare no time of the org with your own clock.",
    Fault.PERMISSION_WITHDRAWN: "Do not take what you no longer see for deleted: check your permissions first.",
    Fault.INSTANCE_MOVE: "Read all records again, with a watermark, and say so.",
    Fault.REPLAY_IDS_EXPIRED: "Read all records again, with a watermark, and say so.",
    Fault.TOKENS_EXPIRED: "Ask for one new token, also after hours.",
}
REST_ADVICE: Mapping[RestFault, str] = {
    RestFault.UNAUTHORIZED: "Ask for one new token, and send the request again.",
    RestFault.REQUEST_LIMIT: "Stop, and say so; trying again makes it worse.",
    RestFault.TOO_MANY_REQUESTS: "Wait as long as Retry-After says, or for a growing pause.",
    RestFault.UNAVAILABLE: "Wait as long as Retry-After says, or for a growing pause.",
    RestFault.SERVER_ERROR: "Repeat reads, a limited number of times; look first whether a write was done.",
    RestFault.URI_TOO_LONG: "Ask for less at once; do not read HTML as an answer of the org.",
    RestFault.GARBAGE: "Believe the content type and the form of the answer, not the status alone.",
    RestFault.CUT_OFF: "Compare the length with what was announced, and use nothing of the answer.",
    RestFault.TIMEOUT: "Have timeouts of your own for connecting and for reading.",
    RestFault.SLOW: "Let the timeout count from the last byte, and hold no lock meanwhile.",
    RestFault.BODY_CUT: "Commit a page when it is whole; ask for it again by the same locator.",
    RestFault.LOCATOR_GONE: "Begin the query again.",
    RestFault.REFUSED: "Decide by the errorCode.",
}
