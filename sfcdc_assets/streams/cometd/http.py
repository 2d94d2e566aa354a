"""HTTP of the Streaming API: one request with messages, one answer with messages, and the cookies between them.

`requests` carries it, as it does all of the org's REST side: the same roots, the same reading of what broke.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from sfcdc_assets.salesforce.answers import hold_body
from sfcdc_assets.salesforce.errors import CertificateNotTrusted
from sfcdc_assets.salesforce.retry import certificate_problem, retry_after_s, transient_of
from sfcdc_assets.salesforce.transport import NoAuthorization
from sfcdc_assets.streams.cometd.errors import BrokenAnswer, CometdUnavailable, RequestTooLarge, error_of_status
from sfcdc_assets.streams.cometd.replies import Refusal, code_and_text

MOST_BYTES = 32_768
"""Of a request's body (Streaming API guide, "How the Client Connects")."""
MOST_ANSWER_BYTES = 64 * 2**20
"""Of an answer, unpacked: sixty of the largest messages that there are."""
CONNECT_SECONDS = 10.0

Message = Mapping[str, Any]


class CometdHttp:
    """Posts to one address with one set of cookies: those of one Bayeux session. For two threads at once, of which one
    waits for events."""

    def __init__(self, url: str, token: Callable[[], str], adapter: HTTPAdapter) -> None:
        """`token` is asked for each request, so that one that was renewed counts at once."""
        self._url = url
        self._token = token
        self._session = requests.Session()
        self._session.mount("https://", adapter)
        self._session.auth = NoAuthorization()

    def post(self, messages: Sequence[Message], seconds: float, *, subject: str = "") -> list[dict[str, Any]]:
        """Return the messages of the answer, which has to come within `seconds`. Raises `CometdError`, and what `token`
        does.

        Nothing is sent twice here: an answer that did not arrive may have had events in it.
        """
        body = json.dumps(list(messages), separators=(",", ":")).encode()
        asked = Refusal(str(messages[0]["channel"]), subject)
        if len(body) > MOST_BYTES:
            raise RequestTooLarge(Refusal(asked.message, subject, 413, f"{len(body):,} bytes"))
        token = self._token()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            response = self._session.post(
                self._url,
                data=body,
                headers=headers,
                timeout=(CONNECT_SECONDS, seconds),
                allow_redirects=False,
                stream=True,
            )
            hold_body(response, most_bytes=MOST_ANSWER_BYTES)
        except requests.exceptions.RequestException as error:
            not_trusted = certificate_problem(error)
            if not_trusted is not None:
                raise CertificateNotTrusted(self._url, "SFCDC_INSTANCE_URL", not_trusted) from None
            transient = transient_of(error)
            problem = transient.problem if transient else f"it is not usable ({type(error).__name__})"
            raise CometdUnavailable(Refusal(asked.message, subject, 0, problem)) from None
        # Some servers quote what they refuse.
        return messages_of(response, response.content.replace(token.encode(), b"***"), asked)

    def close(self) -> None:
        """Close the connections that nothing waits on."""
        self._session.close()


def messages_of(response: requests.Response, content: bytes, asked: Refusal) -> list[dict[str, Any]]:
    """Return the messages of an answer with this content. Raises `CometdError` for one that has none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    messages = [found] if isinstance(found, dict) else found
    # What is in a message says whether it is an event, whatever it lacks; a list without any of the protocol's is none.
    whole = isinstance(messages, list) and all(isinstance(each, dict) for each in messages)
    whole = whole and (not messages or any("channel" in each for each in messages))
    if whole and (response.ok or any("successful" in each for each in messages)):
        return list(messages)
    if response.ok:
        kind = response.headers.get("Content-Type", "no content type")
        raise BrokenAnswer(Refusal(asked.message, asked.subject, 0, f"{len(content)} bytes of {kind}"))
    _, text = code_and_text(_said(response, content, messages))
    refusal = Refusal(asked.message, asked.subject, response.status_code, text)
    raise error_of_status(response.status_code, refusal, retry_after_s(response))


def _said(response: requests.Response, content: bytes, messages: object) -> str:
    """Return what an answer says of itself; a page of HTML is not quoted."""
    first = messages[0] if isinstance(messages, list) and messages else None
    if isinstance(first, dict):
        return str(first.get("error") or first.get("message") or response.reason)
    is_text = response.headers.get("Content-Type", "").startswith("text/plain")
    text = content.decode(errors="replace") if is_text else ""
    return text or response.reason or "no reason is given"
