"""Answers of the REST side, read within bounds: their JSON, or their refusal (docs/salesforce-streams.md, "REST
errors")."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import requests

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.foreign_text import unicode_json
from sfcdc_assets.salesforce.errors import RequestRefused, UnexpectedAnswer

NO_JSON = (ValueError, RecursionError)
"""What `parsed` raises of what is no JSON, has a number of thousands of digits, or is nested a thousand times."""


_SECOND = timedelta(seconds=1)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parsed(response: requests.Response) -> Any:
    """Return the JSON of a body, which is UTF-8 (RFC 8259, section 8.1): bytes that are none become U+FFFD. Requests
    would guess another encoding then, and give texts that nobody wrote. Raises `NO_JSON`."""
    return json.loads(response.content.decode("utf-8-sig", errors="replace"))


def json_of(response: requests.Response) -> Any:
    """Return the JSON of an answer, with texts as `unicode_text`; None when it has no content. Raises
    `UnexpectedAnswer` when it is anything else."""
    if response.status_code == 204 or not response.content:
        return None
    try:
        body = parsed(response)
        return unicode_json(body) if _SURROGATE.search(response.content) else body
    except NO_JSON:
        kind = response.headers.get("Content-Type", "no content type")
        problem = f"HTTP {response.status_code} with {len(response.content)} bytes of {kind} instead of JSON"
        raise UnexpectedAnswer(response.url.partition("?")[0], problem) from None


def refusal_of(response: requests.Response, what: str) -> RequestRefused:
    """Return the refusal in a 4xx or 5xx answer: `[{"message", "errorCode"}]`, or OAuth's `{"error",
    "error_description"}`.

    A proxy's or a load balancer's page is a refusal too, with its status as the code; its text is not quoted.
    """
    try:
        body = parsed(response)
    except NO_JSON:
        body = None
    first = body[0] if isinstance(body, list) and body else body
    if not isinstance(first, dict):
        first = {}
    code = first.get("errorCode") or first.get("error") or f"HTTP_{response.status_code}"
    message = first.get("message") or first.get("error_description") or response.reason or "no reason is given"
    return RequestRefused(what, response.status_code, str(code), str(message))


def refuses_the_token(response: requests.Response) -> bool:
    """Return True for 401, and for the 403 that userinfo gives to a bad token."""
    return response.status_code == 401 or (response.status_code == 403 and b"Bad_OAuth_Token" in response.content)


MOST_BYTES = 256 * 2**20
"""Of a body that is held, unpacked. The largest of the org, 2,000 records with all of their texts, is a tenth."""
MOST_LOGIN_BYTES = 2**20
"""Of a login's answer: a token and some addresses."""
MOST_SECONDS = 300.0
"""From the first byte of a body to its last."""
_CHUNK = 65_536


class BodyTooLarge(requests.exceptions.RequestException):
    """A body is longer than anything that was asked for."""


def hold_body(
    response: requests.Response,
    *,
    most_bytes: int = MOST_BYTES,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Read the body of an answer that was asked for with `stream=True`, so that `content`, `text` and `json` have it.

    Raises `BodyTooLarge`, `requests.exceptions.ReadTimeout`, and what reading raises; the connection is closed then.
    """
    deadline, held, size = monotonic() + MOST_SECONDS, [], 0
    try:
        for chunk in response.iter_content(_CHUNK):
            held.append(chunk)
            size += len(chunk)
            if size > most_bytes:
                raise BodyTooLarge(f"more than {most_bytes:,} bytes")
            if monotonic() > deadline:
                raise requests.exceptions.ReadTimeout(f"not whole after {MOST_SECONDS:.0f} s")
    except BaseException:
        response.close()
        raise
    response._content = b"".join(held)


def asked_at(response: requests.Response, began: float) -> datetime | None:
    """Return when the org was asked by its own clock, UTC: its answer has a date of whole seconds, and took as long as
    we waited for it since `began` (seconds of our monotonic clock). None of an answer without a date."""
    try:
        answered = parsedate_to_datetime(response.headers["Date"]).astimezone(UTC)
    except (KeyError, TypeError, ValueError):
        return None
    return answered - timedelta(seconds=clock.current().monotonic() - began) - _SECOND
