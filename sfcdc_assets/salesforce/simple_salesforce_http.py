"""The HTTP session that simple-salesforce is given: its requests are the org session's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from sfcdc_assets.salesforce.transport import READING_METHODS


class HttpOfSimpleSalesforce(requests.Session):
    """A `requests.Session` whose every request goes through `send` (`OrgSession.send`) to `instance_url`, and nowhere
    else: the token must not reach another host.

    So simple-salesforce never sees a 401: a token is renewed below it, or `SessionExpired` is raised. That is also what
    keeps `SFType._call_salesforce` from recursing without bound on a server that goes on refusing
    (docs/salesforce-streams.md, "simple-salesforce").
    """

    def __init__(self, send: Callable[..., requests.Response], instance_url: str, adapter: HTTPAdapter) -> None:
        super().__init__()
        self.mount("https://", adapter)
        self._send = send
        self._instance_url = instance_url

    def request(self, method: str | bytes, url: str | bytes, *_args: Any, **kwargs: Any) -> requests.Response:
        """Send a request by the org's session, with its current token and its tries."""
        # simple-salesforce puts the token it was built with into the headers; `send` puts the current one over it.
        name = method.decode() if isinstance(method, bytes) else method
        address = url.decode() if isinstance(url, bytes) else url
        if not address.startswith(self._instance_url + "/"):
            raise requests.exceptions.InvalidURL(f"{address.partition('?')[0]} is not below {self._instance_url}")
        return self._send(name, address, repeatable=name.upper() in READING_METHODS, **kwargs)
